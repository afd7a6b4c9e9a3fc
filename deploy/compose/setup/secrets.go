package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"railguard/deploy/local/credentials"
)

// The variables of .env that say who owns the secrets, which is who the containers run as; imageUser is the user of the image.
const (
	uidVariable = "SECRETS_UID"
	gidVariable = "SECRETS_GID"
	imageUser   = 65532
)

// urls are the database URLs that the containers read, each a secret because of the password in it: file → role, its password's file, service and database.
var urls = map[string]struct{ role, password, service string }{
	"lockdb-owner.url": {"postgres", "lockdb", "lockdb"},
	"paydb-owner.url":  {"postgres", "paydb", "paydb"},
	"lockapp.url":      {"lockapp", "lockapp", "lockdb"},
	"payapp.url":       {"payapp", "payapp", "paydb"},
	"railapp.url":      {"railapp", "railapp", "paydb"},
}

func secretsDir(dir string) string { return filepath.Join(dir, "secrets") }

// makeSecrets makes what is missing; what is there stays, so the passwords in the databases' volumes go on being right.
func makeSecrets(dir string) error {
	secrets := secretsDir(dir)
	if err := os.MkdirAll(secrets, 0o700); err != nil {
		return err
	}
	if _, err := credentials.Load(secrets); err != nil {
		return err
	}
	for _, server := range []string{"lockdb", "paydb", "temporaldb"} { // the superusers'
		if _, err := credentials.Keep(filepath.Join(secrets, server+".password")); err != nil {
			return err
		}
	}
	for file, u := range urls {
		password, err := credentials.Keep(filepath.Join(secrets, u.password+".password"))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(secrets, file), []byte(databaseURL(u.role, password, u.service+":5432", u.service)), 0o600); err != nil {
			return err
		}
	}
	return handOver(dir)
}

// databaseURL needs no escaping: what credentials makes are letters and digits.
func databaseURL(role, password, address, database string) string {
	return fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", role, password, address, database)
}

// handOver makes the containers' user the owner of the secrets: compose mounts the files as they are. Root gives them to that user;
// anybody else keeps them, and the containers run as him.
func handOver(dir string) error {
	settings, err := readEnv(filepath.Join(dir, ".env"))
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return own(dir, settings)
	}
	uid, err := number(settings, uidVariable)
	if err != nil {
		return err
	}
	gid, err := number(settings, gidVariable)
	if err != nil {
		return err
	}
	return filepath.WalkDir(secretsDir(dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, gid)
	})
}

// own says in .env that the containers run as whoever calls this.
func own(dir string, settings map[string]string) error {
	want := map[string]string{uidVariable: strconv.Itoa(os.Getuid()), gidVariable: strconv.Itoa(os.Getgid())}
	var lines string
	for _, name := range []string{uidVariable, gidVariable} {
		switch settings[name] {
		case want[name]:
		case "":
			lines += name + "=" + want[name] + "\n"
		default:
			return fmt.Errorf(".env says %s=%s, but you are %s and the secrets are yours: take the line out, or run this as root", name, settings[name], want[name])
		}
	}
	if lines == "" {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(dir, ".env"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(lines)
	return errors.Join(err, file.Close())
}

func number(settings map[string]string, name string) (int, error) {
	if settings[name] == "" {
		return imageUser, nil
	}
	n, err := strconv.Atoi(settings[name])
	if err != nil || n < 0 {
		return 0, fmt.Errorf(".env: %s: %q is not a number", name, settings[name])
	}
	return n, nil
}

// readEnv reads the NAME=VALUE lines of a file; none when it does not exist. What the shell sets outranks it, as for compose.
func readEnv(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	settings := map[string]string{}
	for _, line := range strings.Split(string(data), "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = value
		}
	}
	for _, name := range []string{uidVariable, gidVariable} {
		if value, ok := os.LookupEnv(name); ok {
			settings[name] = value
		}
	}
	return settings, nil
}
