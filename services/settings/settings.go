// Package settings reads a process's configuration from the environment and refuses what looks like a typing error.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/kelseyhightower/envconfig"
)

// known lists every variable of every process of the product: one environment may be shared by several
// processes, so a variable that another process reads is not a typing error.
var known = strings.Fields(`
	LOCK_BACKEND LOCKDB_URL PAYDB_URL LISTEN_ADDR TASK_QUEUE CALLER_TOKEN_FILE
	PAYOUT_LOCK_WAIT PAYOUT_WORK_DURATION PAYOUT_LOCK_TTL
	LOCK_DEFAULT_TTL LOCK_MAX_WAITERS LOCK_SAFETY_MARGIN LOCK_DB_POOL PAYMENT_DB_POOL RAIL_DB_POOL
	LOCK_SERVER_URL PAYMENT_RESOURCE_URL RAIL_PROXY_URL RAIL_URL RAIL_TIMEOUT SUBMIT_BUDGET
	PAYMENT_FENCING_ENABLED RAIL_PROXY_FENCING_ENABLED
	RAIL_STUB_SEED RAIL_STUB_LATENCY RAIL_STUB_FAULTS RAIL_STUB_LOOKUP_DELAY RAIL_STUB_URL
	WORKER_MAX_PAYOUTS
	AUTH_TOKENS_FILE TLS_CERT_FILE TLS_KEY_FILE TLS_CA_FILE
	LOCKAPP_PASSWORD PAYAPP_PASSWORD RAILAPP_PASSWORD RECONCILER_PASSWORD
	RAILGUARD_PROFILE RAILGUARD_TOKEN_FILE RAILGUARD_DATA_DIR`)

// prefixes are what makes a variable ours.
var prefixes = strings.Fields(`LOCK_ LOCKDB_ LOCKAPP_ PAYDB_ PAYAPP_ RAILAPP_ RECONCILER_ PAYOUT_ PAYMENT_ RAIL_ RAILGUARD_ RESOLUTION_ SUBMIT_ SWEEP_ WORKER_ AUTH_ CALLER_ LISTEN_ TASK_ TLS_`)

// Load fills spec, a pointer to a flat struct, from the environment. Field tags are those of envconfig
// (envconfig:"NAME" default:"…") and two of our own: need:"true" for a variable without which the process
// cannot start, and secret:"true" for a value that is masked when printed and may be given as NAME_FILE, the path
// of a file that holds it. Every error names the variable.
func Load(spec any) error {
	if err := refuseUnknown(os.Environ()); err != nil {
		return err
	}
	if err := envconfig.Process("", spec); err != nil {
		var parse *envconfig.ParseError
		if errors.As(err, &parse) {
			return fmt.Errorf("%s: %q is not a valid %s", parse.KeyName, parse.Value, parse.TypeName)
		}
		return err
	}
	value := reflect.ValueOf(spec).Elem()
	for i := range value.NumField() {
		field, tag := value.Field(i), value.Type().Field(i).Tag
		name := tag.Get("envconfig")
		if tag.Get("secret") == "true" {
			if err := fromFile(name, field); err != nil {
				return err
			}
		}
		if tag.Get("need") == "true" && field.IsZero() {
			return fmt.Errorf("%s must be set", name)
		}
	}
	return nil
}

func fromFile(name string, field reflect.Value) error {
	path := os.Getenv(name + "_FILE")
	if path == "" {
		return nil
	}
	if !field.IsZero() {
		return fmt.Errorf("%s and %s_FILE are both set; set one", name, name)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s_FILE: %w", name, err)
	}
	field.SetString(strings.TrimSpace(string(data)))
	return nil
}

func refuseUnknown(environ []string) error {
	allowed := make(map[string]bool, 2*len(known))
	for _, name := range known {
		allowed[name], allowed[name+"_FILE"] = true, true
	}
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if allowed[name] {
			continue
		}
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				unknown = append(unknown, name)
				break
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	sort.Strings(unknown)
	return fmt.Errorf("unknown variable %s: no process reads it; is it misspelt?", strings.Join(unknown, ", "))
}

// Attrs is the configuration as log attributes, secrets masked.
func Attrs(spec any) []slog.Attr {
	value := reflect.Indirect(reflect.ValueOf(spec))
	attrs := make([]slog.Attr, 0, value.NumField())
	for i := range value.NumField() {
		tag := value.Type().Field(i).Tag
		shown := fmt.Sprint(value.Field(i).Interface())
		if tag.Get("secret") == "true" && shown != "" {
			shown = "********"
		}
		attrs = append(attrs, slog.String(tag.Get("envconfig"), shown))
	}
	return attrs
}
