// Package contracttest holds a service to its OpenAPI document: every answer that a test receives must be
// one the document allows, every request that the service accepted must be one it describes, and every
// route must be in it.
package contracttest

import (
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"railguard/docs/contracts"
)

// Load reads and validates the document of a service.
func Load(t testing.TB, service string) *openapi3.T {
	t.Helper()
	data, err := contracts.Files.ReadFile(service + ".yaml")
	require.NoError(t, err)
	document, err := openapi3.NewLoader().LoadFromData(data)
	require.NoError(t, err)
	require.NoError(t, document.Validate(t.Context()))
	return document
}

// NewClient returns a client whose every exchange is validated against the document of the service; a
// violation fails the test. The server's address does not matter, only the path.
func NewClient(t testing.TB, service string) *http.Client {
	t.Helper()
	document := Load(t, service)
	document.Servers = nil
	router, err := gorillamux.NewRouter(document)
	require.NoError(t, err)
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: &validator{t: t, router: router, next: transport}}
}

type validator struct {
	t      testing.TB
	router routers.Router
	next   http.RoundTripper
	mu     sync.Mutex
}

func (v *validator) RoundTrip(req *http.Request) (*http.Response, error) {
	sent, err := drain(&req.Body)
	if err != nil {
		return nil, err
	}
	res, err := v.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	received, err := drain(&res.Body)
	if err != nil {
		return nil, err
	}
	v.check(req, sent, res, received)
	return res, nil
}

// drain reads a body to its end and puts it back.
func drain(body *io.ReadCloser) ([]byte, error) {
	if *body == nil {
		return nil, nil
	}
	data, err := io.ReadAll(*body)
	_ = (*body).Close()
	*body = io.NopCloser(bytes.NewReader(data))
	return data, err
}

func (v *validator) check(req *http.Request, sent []byte, res *http.Response, received []byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	copied := req.Clone(req.Context())
	copied.URL.Scheme, copied.URL.Host, copied.Host = "", "", ""
	copied.Body = io.NopCloser(bytes.NewReader(sent))
	route, params, err := v.router.FindRoute(copied)
	if err != nil {
		// A path or method that the document does not know: the service must not know it either.
		if res.StatusCode != http.StatusNotFound {
			v.t.Errorf("%s %s answered %d, and is not in the document: %v", req.Method, req.URL.Path, res.StatusCode, err)
		}
		return
	}
	input := &openapi3filter.RequestValidationInput{
		Request: copied, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc:    openapi3filter.NoopAuthenticationFunc,
			IncludeResponseStatus: true,
			MultiError:            true,
		},
	}
	if res.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(req.Context(), input); err != nil {
			v.t.Errorf("%s %s was accepted, but the document forbids the request %s: %v", req.Method, req.URL.Path, sent, err)
		}
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Options: input.Options,
	}
	output.SetBodyBytes(received)
	if err := openapi3filter.ValidateResponse(req.Context(), output); err != nil {
		v.t.Errorf("%s %s answered %d with what the document does not allow, %s: %v", req.Method, req.URL.Path, res.StatusCode, received, err)
	}
}

var ginParameter = regexp.MustCompile(`/:([A-Za-z]+)`)

// documentPath turns a gin path into the document's form; a colon within a segment (payouts:batch) is escaped in gin's.
func documentPath(path string) string {
	return strings.ReplaceAll(ginParameter.ReplaceAllString(path, "/{$1}"), `\:`, ":")
}

// CheckRoutes fails the test for every route of the engine that is not in the document, and for every
// operation of the document that the engine does not serve. A gin path such as /v1/locks/:key is
// /v1/locks/{key} in the document.
func CheckRoutes(t testing.TB, service string, routes gin.RoutesInfo) {
	t.Helper()
	documented := make(map[string]bool)
	for path, item := range Load(t, service).Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+path] = true
		}
	}
	for _, route := range routes {
		name := route.Method + " " + documentPath(route.Path)
		if !documented[name] {
			t.Errorf("%s is served and not in the document", name)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is in the document and not served", name)
	}
}
