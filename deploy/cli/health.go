package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"railguard/services/httpserver"
)

// healthAnswer is the most of a health answer that is shown, in bytes.
const healthAnswer = 4 << 10

func healthCommand() *cobra.Command {
	var address string
	var timeout time.Duration
	c := &cobra.Command{
		Use:     "health",
		Short:   "Ask a process whether it is ready; for containers that have no shell",
		Example: "  railguard health --url http://127.0.0.1:8082/readyz",
		Args:    cobra.NoArgs,
	}
	c.Flags().StringVar(&address, "url", "", "what to ask; /readyz when it has no path")
	c.Flags().DurationVar(&timeout, "timeout", 3*time.Second, "how long to wait for the answer")
	_ = c.MarkFlagRequired("url")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return badInput("--url: %q is not an http or https URL", address)
		}
		if u.Path == "" || u.Path == "/" {
			u.Path = "/readyz"
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		return askHealth(ctx, cmd.OutOrStdout(), u.String())
	}
	return c
}

func askHealth(ctx context.Context, out io.Writer, address string) error {
	e, err := loadEnvironment()
	if err != nil {
		return err
	}
	config, err := httpserver.ClientTLS(e.TLSCertFile, e.TLSKeyFile, e.TLSCAFile)
	if err != nil {
		return &inputError{err}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return &inputError{err}
	}
	client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return unreachable("%w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, healthAnswer)) // the status decides; the body explains
	text := strings.TrimSpace(string(body))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: status %d: %s", answer.StatusCode, text)
	}
	_, err = fmt.Fprintln(out, text)
	return err
}
