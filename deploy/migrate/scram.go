package migrate

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// scramIterations is PostgreSQL's own default (scram_iterations).
const scramIterations = 4096

// scramVerifier is a password in the form that PostgreSQL stores (RFC 5802, RFC 7677): ALTER ROLE takes it as it is, so that
// the password itself never reaches the server's statement log. Only printable ASCII is taken: beyond it
// the preparation of the string differs between clients.
func scramVerifier(password string) (string, error) {
	if password == "" {
		return "", errors.New("it is empty")
	}
	for _, r := range password {
		if r < ' ' || r > '~' {
			return "", errors.New("it holds a character that is not printable ASCII")
		}
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails since Go 1.24
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		return "", err
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, encode(salt), encode(stored[:]), encode(sign(salted, "Server Key"))), nil
}

func sign(key []byte, message string) []byte {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(message)) // a hash never fails
	return mac.Sum(nil)
}
