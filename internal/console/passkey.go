package console

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"lazaret/internal/holds"
	"lazaret/pkg/keys"
	"lazaret/pkg/passkey"
	"lazaret/streams"
)

// pinnedPasskey is a passkey in the trust file that may sign on pages at this console's URL.
type pinnedPasskey struct {
	Name       string
	Credential string // base64url
	RP         string
	Roles      []keys.Role
	key        string
}

// passkeys returns the passkeys in the trust file that can sign on the pages of this console.
func (c *Console) passkeys() ([]pinnedPasskey, error) {
	trust, err := keys.LoadTrust(filepath.Join(c.cfg.Data, keys.TrustFile))
	if err != nil {
		return nil, err
	}
	var out []pinnedPasskey
	for _, p := range trust.Pins() {
		k, name, err := keys.ParsePasskey(p.Key)
		if err == nil && k != nil && slices.Contains(k.Origins, c.origins[0]) {
			out = append(out, pinnedPasskey{name, base64.RawURLEncoding.EncodeToString(k.Credential), k.RP, p.Roles, p.Key})
		}
	}
	return out, nil
}

// rp returns the relying party ID for passkeys that are registered on this console: its host name. It returns "" if the
// console's host is an IP address, because a passkey needs a host name.
func (c *Console) rp() string {
	u, err := url.Parse(c.origins[0])
	if err != nil || strings.ContainsAny(u.Hostname(), ":") || strings.Trim(u.Hostname(), "0123456789.") == "" {
		return ""
	}
	return u.Hostname()
}

// signView has the data that a page needs so that a person can sign a decision on it.
type signView struct {
	Passkeys []pinnedPasskey
	Now      time.Time
	May      bool // the user has the role
}

// Sign returns the data with which a page of a hold or a belief offers to sign.
func (p *page) Sign() (*signView, error) {
	list, err := p.c.passkeys()
	return &signView{list, time.Now(), p.User.Approver()}, err
}

// decision is a signed decision, in the form in which a page sends it.
type decision struct {
	Text       string `json:"text"`       // the signed statement
	Credential string `json:"credential"` // the passkey that signed it, base64url
	keys.Assertion
}

// resolve passes a decision that a passkey has signed to the arbiter. The arbiter verifies it.
func (c *Console) resolve(w http.ResponseWriter, r *http.Request, u *User) (any, error) {
	project, id := r.PathValue("project"), r.PathValue("id")
	if !u.Approver() || !u.May(project) {
		return nil, &failure{http.StatusForbidden, "Forbidden", "you may not send decisions for this project"}
	}
	h, err := c.findHold(r.Context(), project, id)
	if err != nil {
		return nil, err
	}
	if _, hidden := c.pageFor(r, u).say(project, bodyOf(h), h.Verdict.Proposal); hidden {
		return nil, &failure{http.StatusForbidden, "Forbidden", "you may not see what is held, so you cannot decide on it"}
	}
	note, err := c.assemble(w, r)
	if err != nil {
		return nil, err
	}
	return holds.Send(r.Context(), c.cfg.Conn, project, id, note)
}

// assemble returns the decision in a request as a signed note. It returns an error if the passkey is not pinned. It
// does not verify the signature.
func (c *Console) assemble(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	var d decision
	if err := readJSON(w, r, &d); err != nil {
		return nil, err
	}
	list, err := c.passkeys()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(p pinnedPasskey) bool { return p.Credential == d.Credential })
	if i < 0 {
		return nil, badRequest("the passkey is not pinned: an operator pins it with lazaret key pin")
	}
	note, err := keys.AssembleNote(d.Text, list[i].key, &d.Assertion)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return note, nil
}

// attest sends ingest an attestation of a belief. A passkey has signed the attestation. Ingest verifies it.
func (c *Console) attest(w http.ResponseWriter, r *http.Request, u *User) (any, error) {
	project, id := r.PathValue("project"), r.PathValue("id")
	if !u.Approver() || !u.May(project) {
		return nil, &failure{http.StatusForbidden, "Forbidden", "you may not send attestations for this project"}
	}
	b, err := c.findBelief(r.Context(), project, id)
	if err != nil {
		return nil, err
	}
	if p := c.pageFor(r, u); p.believed(b) != b.Content {
		return nil, &failure{http.StatusForbidden, "Forbidden", "you may not see the belief, so you cannot decide on it"}
	}
	note, err := c.assemble(w, r)
	if err != nil {
		return nil, err
	}
	return holds.Attest(r.Context(), c.cfg.Conn, project, id, note)
}

// registration is a request of a page that registers a passkey, or the response to it.
type registration struct {
	Challenge string           `json:"challenge,omitzero"`
	RP        string           `json:"rp,omitzero"`
	Name      string           `json:"name,omitzero"`
	User      string           `json:"user,omitzero"` // base64url
	Key       string           `json:"key,omitzero"`  // the key to pin
	Command   string           `json:"command,omitzero"`
	Response  jsontext.Value   `json:"response,omitzero"`
	Exclude   []string         `json:"exclude,omitzero"`
	Params    []jsontext.Value `json:"params,omitzero"`
}

// register handles the two requests with which a page registers a passkey. To the first, it answers with a challenge.
// The second has the new key, which register verifies with the challenge of the session. It returns the key's text. The
// key is not trusted until an operator pins it.
func (c *Console) register(w http.ResponseWriter, r *http.Request, u *User) (any, error) {
	var in registration
	if err := readJSON(w, r, &in); err != nil {
		return nil, err
	}
	name := keyName(u.Name)
	if c.rp() == "" {
		return nil, badRequest("passkeys need a host name, but the console's URL is %s", c.origins[0])
	}
	k, err := r.Cookie(c.cookieName())
	if err != nil {
		return nil, err
	}
	if in.Response == nil {
		out := &registration{Challenge: random(), RP: c.rp(), Name: name,
			User: base64.RawURLEncoding.EncodeToString([]byte(name))}
		c.logins.challenge(k.Value, out.Challenge)
		return out, nil
	}
	challenge := c.logins.challenge(k.Value, "")
	if challenge == "" {
		return nil, badRequest("the registration belongs to another session or has ended: start again")
	}
	p, err := passkey.Register(in.Response, challenge, c.rp(), c.origins[0])
	if err != nil {
		return nil, badRequest("the passkey cannot be registered: %v", err)
	}
	key, err := p.Pin(name)
	if err != nil {
		return nil, badRequest("the passkey cannot be pinned: %v", err)
	}
	return &registration{Key: key, Name: name, Command: "lazaret key pin '" + key +
		"' --role approver && lazaret key activate"}, nil
}

// keyName returns the name that a user's passkey gets. The name is a part of the command that pins the key, between
// quotation marks of the shell.
func keyName(user string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == '+' || r == '\'' {
			return '-'
		}
		return r
	}, user)
}

func readJSON(w http.ResponseWriter, r *http.Request, into any) error {
	if t := r.Header.Get("Content-Type"); t != "application/json" {
		return badRequest("the content type is %q, send application/json", streams.Clip(t, 60))
	}
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return badRequest("the body cannot be read: %v", err)
	}
	if err := json.Unmarshal(b, into, json.RejectUnknownMembers(true)); err != nil {
		return badRequest("the body cannot be read: %s", streams.DescribeJSON(err))
	}
	return nil
}

// serveJSON returns a handler for requests of a page's JavaScript.
func (c *Console) serveJSON(h func(w http.ResponseWriter, r *http.Request, u *User) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status, answer := http.StatusOK, any(nil)
		u := c.user(r)
		ctx, cancel := context.WithTimeout(r.Context(), askTime)
		defer cancel()
		err := error(&failure{http.StatusUnauthorized, "Sign in", "the session is over: sign in again"})
		if u != nil {
			answer, err = h(w, r.WithContext(ctx), u)
		}
		if err != nil {
			status = http.StatusServiceUnavailable
			if f, ok := err.(*failure); ok {
				status = f.status
			}
			answer = map[string]string{"error": err.Error()}
		}
		b, err := json.Marshal(answer)
		if err != nil {
			status, b = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written"}`)
		}
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, "%s\n", b)
	}
}

type passkeysView struct {
	Pinned []pinnedPasskey
	RP     string
	Origin string
}

func (c *Console) passkeysPage(_ *http.Request, p *page) (string, error) {
	list, err := c.passkeys()
	if err != nil {
		return "", err
	}
	p.Title, p.Data = "Passkeys", &passkeysView{list, c.rp(), c.origins[0]}
	return "passkeys", nil
}
