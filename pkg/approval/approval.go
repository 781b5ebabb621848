package approval

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
)

// Version begins the text of every signed statement of this kind. So a statement that was signed for another purpose
// cannot be used as a resolution, and a resolution cannot be used for another purpose.
const Version = "lazaret/approval/v1"

// Limits.
const (
	MaxNote   = 32 << 10       // bytes of a signed resolution
	MaxReason = 500            // bytes of the signer's reason
	MaxLife   = 24 * time.Hour // maximum time until the expiry
	NonceSize = 16             // bytes
)

// Decision is a person's decision on a hold.
type Decision string

// The decisions.
const (
	Approve Decision = "approve"
	Reject  Decision = "reject"
	// Withdraw ends the approval of a source. The source was approved together with the release of this hold.
	Withdraw Decision = "withdraw"
)

// Statement is the signed content of a person's decision on a hold.
type Statement struct {
	Action   string    `json:"action"` // digest of the action, see ActionDigest
	Decision Decision  `json:"decision"`
	Expires  time.Time `json:"expires"` // whole seconds, UTC
	Hold     string    `json:"hold"`
	// Levels are the levels at which the signer accepts tools, L0 to L4, by tool name. They are set only if the hold is
	// on a tool catalogue. A tool that is not in Levels keeps the level that the policy gives it.
	Levels   map[string]string `json:"levels,omitzero"`
	Nonce    string            `json:"nonce"` // hex
	Project  string            `json:"project"`
	Reason   string            `json:"reason,omitzero"`
	Revision string            `json:"revision"`
	// Source is the source that is approved together with the hold. If Decision is Withdraw, it is the source whose
	// approval ends.
	Source  *Source `json:"source,omitzero"`
	Version string  `json:"v"`
}

// Source is the approval of one content for one session. It allows actions that the content asks for, as far as the
// policy permits that.
type Source struct {
	Actions int       `json:"actions,omitzero"` // maximum number of later actions
	Digest  string    `json:"digest"`           // of the content
	Expires time.Time `json:"expires,omitzero"` // whole seconds, UTC
	Session string    `json:"session"`
}

// NewNonce returns a random nonce in hex.
func NewNonce() string {
	var b [NonceSize]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}

// Text returns the text that is signed.
func (s *Statement) Text() (string, error) { return canonical(s) }

// checked is a statement: a Statement, a BeliefStatement or an Order. check returns an error if a field is missing or not
// in its canonical form.
type checked interface{ check() error }

// canonical checks a statement and returns its JCS form (canonical JSON) with a line break at the end.
func canonical(statement checked) (string, error) {
	if err := statement.check(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(statement)
	if err != nil {
		return "", err
	}
	canon, err := jcs.Transform(raw)
	if err != nil {
		return "", err
	}
	return string(canon) + "\n", nil
}

// Sign returns the statement as a signed note.
func (s *Statement) Sign(signer note.Signer) ([]byte, error) { return signStatement(s, signer) }

func signStatement(s checked, signer note.Signer) ([]byte, error) {
	text, err := canonical(s)
	if err != nil {
		return nil, err
	}
	msg, err := note.Sign(&note.Note{Text: text}, signer)
	if err == nil && len(msg) > MaxNote {
		err = fmt.Errorf("the signed statement has %d bytes, at most %d are taken", len(msg), MaxNote)
	}
	return msg, err
}

func (s *Statement) check() error {
	switch {
	case s.Version != Version:
		return refuse(CheckForm, "version is %q, want %q", clip(s.Version), Version)
	case s.Decision != Approve && s.Decision != Reject && s.Decision != Withdraw:
		return refuse(CheckForm, "decision is %q, use %s, %s or %s", clip(string(s.Decision)), Approve, Reject, Withdraw)
	case !isHex(s.Nonce, 2*NonceSize):
		return refuse(CheckForm, "nonce %q must be %d bytes in lower-case hex", clip(s.Nonce), NonceSize)
	case !isDigest(s.Action):
		return refuse(CheckForm, "action %q must be %s followed by 32 bytes in lower-case hex", clip(s.Action), digestPrefix)
	case s.Project == "" || s.Hold == "" || s.Revision == "":
		return refuse(CheckForm, "project, hold and revision must be named")
	case !wholeSeconds(s.Expires):
		return refuse(CheckForm, "expires is not a time in whole seconds")
	case len(s.Reason) > MaxReason:
		return refuse(CheckForm, "the reason has %d bytes, at most %d are possible", len(s.Reason), MaxReason)
	}
	if err := s.checkLevels(); err != nil {
		return err
	}
	said := []string{s.Project, s.Hold, s.Revision, s.Reason}
	if s.Source != nil {
		said = append(said, s.Source.Session)
	}
	if err := s.checkSource(); err != nil {
		return err
	}
	return checkTexts(said...)
}

// wholeSeconds reports whether t is a time in whole seconds.
func wholeSeconds(t time.Time) bool { return !t.IsZero() && t.Nanosecond() == 0 && t.Year() <= 9999 }

func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// checkTexts returns an error if one of the texts has control characters or is not UTF-8.
func checkTexts(texts ...string) error {
	for _, s := range texts {
		if !plainText(s) {
			return refuse(CheckForm, "%q has control characters or is not UTF-8", clip(s))
		}
	}
	return nil
}

func (s *Statement) checkLevels() error {
	if len(s.Levels) > 0 && s.Decision != Approve {
		return refuse(CheckForm, "a rejection must not give levels")
	}
	for tool, level := range s.Levels {
		if len(level) != 2 || level[0] != 'L' || level[1] < '0' || level[1] > '4' {
			return refuse(CheckForm, "level of %q is %q, use L0 to L4", clip(tool), clip(level))
		}
		if tool == "" || !plainText(tool) {
			return refuse(CheckForm, "tool %q is empty, has control characters or is not UTF-8", clip(tool))
		}
	}
	return nil
}

// checkSource checks that an approval of a source has all fields, and that a withdrawal has only the source's digest
// and session.
func (s *Statement) checkSource() error {
	x := s.Source
	if x == nil {
		if s.Decision == Withdraw {
			return refuse(CheckForm, "a withdrawal must name the source")
		}
		return nil
	}
	switch {
	case s.Decision == Reject:
		return refuse(CheckForm, "a rejection must not approve a source")
	case !isDigest(x.Digest):
		return refuse(CheckForm, "the source's digest %q must be %s followed by 32 bytes in lower-case hex", clip(x.Digest),
			digestPrefix)
	case x.Session == "":
		return refuse(CheckForm, "an approval of a source must name the session that it is for")
	case s.Decision == Withdraw && (x.Actions != 0 || !x.Expires.IsZero()):
		return refuse(CheckForm, "a withdrawal must not give a number of actions or an expiry of the source")
	case s.Decision == Withdraw:
		return nil
	case x.Actions < 1:
		return refuse(CheckForm, "the source is approved for %d actions, want 1 or more", x.Actions)
	case !wholeSeconds(x.Expires):
		return refuse(CheckForm, "the expiry of the source is not a time in whole seconds")
	}
	return nil
}

// isDigest reports whether s is digestPrefix and a SHA-256 in hex.
func isDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, digestPrefix)
	return ok && isHex(hex, 64)
}

func isHex(s string, n int) bool {
	return len(s) == n && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'f')
	})
}

// Check is one of the checks of a resolution. If a resolution is refused, the alert about it has the name of the failed
// check.
type Check string

// The checks, in the order in which they run. The comments say when a check fails.
const (
	CheckForm      Check = "form"      // not a signed statement, or not in its canonical encoding
	CheckUnpinned  Check = "unpinned"  // signed by a key that is not pinned
	CheckSignature Check = "signature" // forged or altered
	CheckHold      Check = "hold"      // not for the hold in the request, or for a hold that does not exist
	CheckReplayed  Check = "replayed"  // the nonce was used before
	// the passkey's counter did not grow: the passkey was cloned, or the assertion is an old one
	CheckCounter  Check = "counter"
	CheckSettled  Check = "settled"  // the hold is not open
	CheckExpired  Check = "expired"  // expired, or the expiry is too far in the future
	CheckRole     Check = "role"     // the key lacks a role that the policy requires
	CheckSelf     Check = "self"     // the key belongs to the requesting agent
	CheckAction   Check = "action"   // for another action
	CheckRevision Check = "revision" // the hold got further reasons after the signer looked at it
	CheckSource   Check = "source"   // the source is not that of the hold, or its approval lasts too long
	CheckPolicy   Check = "policy"   // the policy in force does not allow an approval
)

// Checks is every check, in order.
var Checks = []Check{CheckForm, CheckUnpinned, CheckSignature, CheckHold, CheckReplayed, CheckCounter, CheckSettled,
	CheckExpired,
	CheckRole, CheckSelf, CheckAction, CheckRevision, CheckSource, CheckPolicy}

// Error says why a resolution is refused.
type Error struct {
	Check Check
	Text  string
}

func (e *Error) Error() string { return string(e.Check) + ": " + e.Text }

// Is reports whether target is an *Error with the same check. If target has a text, the text must be the same too.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Check == e.Check && (t.Text == "" || t.Text == e.Text)
}

func refuse(c Check, format string, args ...any) error {
	return &Error{c, fmt.Sprintf(format, args...)}
}

func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Signed is a statement with a verified signature.
type Signed struct {
	Statement
	Signature
}

// Signature names the key that signed a statement.
type Signature struct {
	Signer string   // name of the signing key
	Pin    keys.Pin // the key's pin in the trust file
	// Passkey is set if the signing key is a passkey. Then Counter is the passkey's signature counter.
	Passkey bool
	Counter uint32
}

// sigLine begins a signature line in a note.
const sigLine = "— "

// Open verifies that msg is a statement that exactly one pinned key has signed. It does not check whether the key may
// decide this hold: see Judge. Every error is an *Error.
func Open(msg []byte, trust *keys.Trust) (*Signed, error) {
	s := new(Signed)
	if err := openStatement(msg, trust, &s.Statement, &s.Signature); err != nil {
		return nil, err
	}
	return s, nil
}

// openStatement verifies that msg is a statement that exactly one pinned key has signed. It decodes the statement to s
// and sets by.
func openStatement(msg []byte, trust *keys.Trust, s checked, by *Signature) error {
	signed, err := by.open(msg, trust)
	if err != nil {
		return err
	}
	return readStatement(signed, s)
}

// grown returns an error if the counter of a passkey has not grown since the last accepted statement. before is the
// counter in that statement. An authenticator without a counter always reports 0, so grown accepts 0 after 0. It does
// not check the counter of other keys.
func (by *Signature) grown(before uint32) error {
	if by.Passkey && (by.Counter > 0 || before > 0) && by.Counter <= before {
		return refuse(CheckCounter,
			"the passkey %q counts %d signatures, but it had counted %d before: it may have been copied",
			by.Signer, by.Counter, before)
	}
	return nil
}

// inTime returns an error if a statement with this expiry may not be accepted at the ledger time now: it has expired,
// or it expires too late.
func inTime(expires, now time.Time) error {
	switch {
	case !now.Before(expires):
		return refuse(CheckExpired, "it expired at %s", expires.Format(time.RFC3339))
	case expires.Sub(now) > MaxLife:
		return refuse(CheckExpired, "it expires at %s, more than %v from now", expires.Format(time.RFC3339), MaxLife)
	}
	return nil
}

// open verifies that msg is a note in its canonical encoding that exactly one pinned key has signed. It sets by and
// returns the note's text.
func (by *Signature) open(msg []byte, trust *keys.Trust) (text string, err error) {
	if len(msg) > MaxNote {
		return "", refuse(CheckForm, "it has %d bytes, at most %d are taken", len(msg), MaxNote)
	}
	if trust == nil {
		trust = new(keys.Trust)
	}
	n, err := note.Open(msg, trust.All())
	var unverified *note.UnverifiedNoteError
	var invalid *note.InvalidSignatureError
	switch {
	case errors.As(err, &unverified):
		who := "nobody"
		if s := unverified.Note.UnverifiedSigs; len(s) > 0 {
			who = fmt.Sprintf("%q+%08x", clip(s[0].Name), s[0].Hash)
		}
		return "", refuse(CheckUnpinned, "it is signed by %s, which is not pinned", who)
	case errors.As(err, &invalid):
		why := ""
		if pin, ok := trust.Find(invalid.Name, invalid.Hash); ok {
			why = keys.ExplainAssertion(pin.Key, msg)
		}
		if why != "" {
			return "", refuse(CheckSignature, "the assertion of passkey %q is not valid for the signed text: %s",
				clip(invalid.Name), strings.ToValidUTF8(why[:min(len(why), 300)], ""))
		}
		return "", refuse(CheckSignature, "the signature of key %q is not valid for the signed text", clip(invalid.Name))
	case err != nil:
		return "", refuse(CheckForm, "it is not a signed note: %v", err)
	}
	if len(n.Sigs) != 1 || len(n.UnverifiedSigs) != 0 {
		return "", refuse(CheckForm, "it carries %d signatures, want one", len(n.Sigs)+len(n.UnverifiedSigs))
	}
	sig := n.Sigs[0]
	// Because of base64, several encodings of the same note verify. open accepts only the canonical one.
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil || string(msg) != n.Text+"\n"+sigLine+sig.Name+" "+base64.StdEncoding.EncodeToString(raw)+"\n" {
		return "", refuse(CheckForm, "it is not in its canonical encoding")
	}
	pin, ok := trust.Find(sig.Name, sig.Hash)
	if !ok {
		return "", refuse(CheckUnpinned, "key %q is not pinned", clip(sig.Name))
	}
	by.Signer, by.Pin = sig.Name, pin
	p, _, err := keys.ParsePasskey(pin.Key)
	if p != nil {
		var assertion *keys.Assertion
		if assertion, err = keys.ParseAssertion(raw[4:]); err == nil { // skips the hash of the key
			by.Passkey, by.Counter = true, assertion.Counter()
		}
	}
	if err != nil {
		return "", refuse(CheckForm, "its assertion cannot be read: %v", err)
	}
	return n.Text, nil
}

// readStatement decodes a note's text to a statement.
func readStatement(signed string, s checked) error {
	if err := json.Unmarshal([]byte(strings.TrimSuffix(signed, "\n")), s, json.RejectUnknownMembers(true),
		jsontext.AllowDuplicateNames(false)); err != nil {
		return refuse(CheckForm, "the text is not a statement")
	}
	want, err := canonical(s)
	if err != nil {
		return err
	}
	if want != signed {
		return refuse(CheckForm, "the statement is not in its canonical form")
	}
	return nil
}

// Case is the current state of the hold to which a resolution belongs.
type Case struct {
	Project  string
	Agent    string // the agent that made the proposal
	Hold     string
	Revision string
	Action   string // digest of the action
	// Roles are roles that the signer's key must have: all of them.
	Roles []keys.Role
	Now   time.Time // ledger time
	// Used is set if the nonce was used before. Open is set if the hold waits for a decision. If it does not, State
	// says how the hold ended.
	Used  bool
	Open  bool
	State string
	// Counter is the highest counter of the signer's passkey in a statement that was accepted.
	Counter uint32
}

// Judge returns nil if a verified statement may decide the hold in this state. Otherwise it returns an *Error.
func (s *Signed) Judge(c *Case) error {
	switch {
	case s.Project != c.Project || s.Hold != c.Hold || c.Hold == "":
		return refuse(CheckHold, "it is for another hold: %s of project %s", clip(s.Hold), clip(s.Project))
	case c.Used:
		return refuse(CheckReplayed, "its nonce was used before: each resolution counts once")
	}
	if err := s.grown(c.Counter); err != nil {
		return err
	}
	if !c.Open {
		return refuse(CheckSettled, "the hold is not open any more, but %s", c.State)
	}
	if err := inTime(s.Expires, c.Now); err != nil {
		return err
	}
	roles := c.Roles
	if len(roles) == 0 {
		roles = []keys.Role{keys.RoleApprover}
	}
	for _, r := range roles {
		if !slices.Contains(s.Pin.Roles, r) {
			return refuse(CheckRole, "key %q lacks the role %s", s.Signer, r)
		}
	}
	switch {
	case s.Pin.Agent != "" && s.Pin.Agent == c.Project+"/"+c.Agent:
		return refuse(CheckSelf, "key %q belongs to agent %s, which proposed the held action itself", s.Signer, s.Pin.Agent)
	case s.Action != c.Action:
		return refuse(CheckAction, "it is for the action %s, but the hold's action is %s", s.Action, c.Action)
	case s.Revision != c.Revision:
		return refuse(CheckRevision, "it is for revision %s, but the hold now has revision %s: look at its reasons again",
			clip(s.Revision), c.Revision)
	}
	return nil
}
