package natsconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"lazaret/internal/natsfiles"
)

// Refused reports whether the error of a connection or of its start is that the server refuses the credential.
func Refused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || revoked(err) || expired(err)
}

// revoked and expired report whether the server knows that the credential was revoked, or has expired. If the server
// ends a connection for one of these reasons while the connection starts, nats.go returns the server's text in the
// place of its own error.
func revoked(err error) bool {
	return errors.Is(err, nats.ErrAuthRevoked) || says(err, nats.AUTHENTICATION_REVOKED_ERR)
}

func expired(err error) bool {
	return errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAccountAuthExpired) ||
		says(err, nats.AUTHENTICATION_EXPIRED_ERR)
}

func says(err error, text string) bool {
	return err != nil && strings.Contains(strings.ToLower(err.Error()), text)
}

// refusal adds to err, the error of a failed connection, why the server refused it and what to do, as far as that can
// be determined. creds is the credential file, or "".
func (f *Flags) refusal(err error, creds string) error {
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("%w: is the server running?", err)
	case !Refused(err):
		return err
	case creds == "":
		return fmt.Errorf("%w: does the credential belong to this server?", err)
	}
	const anew = "replace it with lazaret agent rotate NAME; lazaret agent ls --all lists the names"
	user, expires, _ := natsfiles.User(creds) // empty if the file cannot be read
	switch at := f.revoked(user); {
	case !at.IsZero():
		return fmt.Errorf("%w: the credential %s was revoked at %s: %s", err, creds, at.Format(time.RFC3339), anew)
	case revoked(err):
		return fmt.Errorf("%w: the credential %s was revoked: %s", err, creds, anew)
	case expired(err), !expires.IsZero() && !expires.After(time.Now()):
		return fmt.Errorf("%w: the credential %s has expired: %s", err, creds, anew)
	}
	return fmt.Errorf("%w: the credential %s was revoked or replaced, or belongs to another server: "+
		"%s", err, creds, anew)
}

// credsOf returns the credential file that a context file names, or "".
func credsOf(context string) string {
	var c struct {
		Creds string `json:"creds"`
	}
	b, err := os.ReadFile(context)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return ""
	}
	return c.Creds
}

// revoked returns when a user's key was revoked, according to the data folder's register of credentials, or the zero
// time.
func (f *Flags) revoked(user string) time.Time {
	var list struct {
		Credentials []struct {
			User    string    `json:"user"`
			Revoked time.Time `json:"revoked"`
		} `json:"credentials"`
	}
	b, err := os.ReadFile(filepath.Join(f.Data, "keys", "credentials.json"))
	if err != nil || user == "" || json.Unmarshal(b, &list) != nil {
		return time.Time{}
	}
	for _, c := range list.Credentials {
		if c.User == user {
			return c.Revoked
		}
	}
	return time.Time{}
}
