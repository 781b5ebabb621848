package natsconn

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
)

// refusal explains why a server refused a connection and what to do, as far as that can be determined.
// creds is the credential file, or "".
func (f *Flags) refusal(err error, creds string) error {
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("%w: is the server running?", err)
	case !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthRevoked) && !errors.Is(err,
		nats.ErrAuthExpired):
		return err
	case creds == "":
		return fmt.Errorf("%w: does the credential belong to this server?", err)
	}
	const anew = "replace it with lazaret agent rotate NAME; lazaret agent ls --all lists the names"
	user, expires := userOf(creds)
	switch revoked := f.revoked(user); {
	case !revoked.IsZero():
		return fmt.Errorf("%w: the credential %s was revoked at %s: %s", err, creds, revoked.Format(time.RFC3339), anew)
	case errors.Is(err, nats.ErrAuthRevoked):
		return fmt.Errorf("%w: the credential %s was revoked: %s", err, creds, anew)
	case errors.Is(err, nats.ErrAuthExpired), !expires.IsZero() && !expires.After(time.Now()):
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

// userOf returns the public key and the expiry in a credential file; a zero expiry means never.
func userOf(file string) (user string, expires time.Time) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", expires
	}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return "", expires
	}
	c, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return "", expires
	}
	if c.Expires > 0 {
		expires = time.Unix(c.Expires, 0)
	}
	return c.Subject, expires
}

// revoked returns when the data folder's register revoked a user's key, or the zero time.
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
