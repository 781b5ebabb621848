package approval

import (
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
)

// BeliefVersion begins every signed statement on a belief.
const BeliefVersion = "lazaret/belief/v1"

// The decisions on a belief. A verification run's key (role probe) may confirm;
// everything else takes a person's (role approver).
const (
	Confirm      Decision = "confirm"        // it is so: believed and served
	RejectBelief Decision = "reject"         // not wanted: quarantined, with a tombstone
	Quarantine   Decision = "quarantine"     // out of service, for review
	ClearBelief  Decision = "clear"          // the suspicion was unfounded: context, until confirmed
	Block        Decision = "block"          // served to nobody
	Unblock      Decision = "unblock"        // a candidate again
	Malicious    Decision = "malicious"      // final
	Supersede    Decision = "supersede"      // a named successor takes its place
	Contradict   Decision = "contradict"     // it is not so
	Restrict     Decision = "restrict"       // context at most
	AuditOnly    Decision = "audit_only"     // served to audit only
	EndAuditOnly Decision = "end_audit_only" // context again
)

var beliefDecisions = []Decision{Confirm, RejectBelief, Quarantine, ClearBelief, Block, Unblock, Malicious, Supersede,
	Contradict, Restrict, AuditOnly, EndAuditOnly}

// BeliefDecisions is every decision on a belief.
func BeliefDecisions() []Decision { return slices.Clone(beliefDecisions) }

// BeliefStatement is a person's attestation on one belief, as it is signed: a decision on
// exactly these bytes, in the state that the signer saw.
type BeliefStatement struct {
	Belief    string    `json:"belief"`
	Content   string    `json:"content"` // digest of exactly its bytes
	Decision  Decision  `json:"decision"`
	Expires   time.Time `json:"expires"` // whole seconds, UTC
	Nonce     string    `json:"nonce"`   // hex
	Project   string    `json:"project"`
	Reason    string    `json:"reason,omitzero"`
	Revision  string    `json:"revision"`
	Successor string    `json:"successor,omitzero"` // of what is superseded
	Version   string    `json:"v"`
}

// Text is the text that is signed.
func (s *BeliefStatement) Text() (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	return canonical(s)
}

// Sign returns the statement as a signed note.
func (s *BeliefStatement) Sign(signer note.Signer) ([]byte, error) {
	return signStatement(s.Text, signer)
}

func (s *BeliefStatement) check() error {
	switch {
	case s.Version != BeliefVersion:
		return refuse(CheckForm, "version is %q, want %q", clip(s.Version), BeliefVersion)
	case !slices.Contains(beliefDecisions, s.Decision):
		return refuse(CheckForm, "decision is %q, use one of %v", clip(string(s.Decision)), beliefDecisions)
	case !isHex(s.Nonce, 2*NonceSize):
		return refuse(CheckForm, "nonce %q is not %d bytes in lower-case hex", clip(s.Nonce), NonceSize)
	case !strings.HasPrefix(s.Content, digestPrefix) || !isHex(s.Content[len(digestPrefix):], 64):
		return refuse(CheckForm, "content %q is not %s and 32 bytes in lower-case hex", clip(s.Content), digestPrefix)
	case s.Project == "" || s.Belief == "" || s.Revision == "":
		return refuse(CheckForm, "project, belief and revision must be named")
	case (s.Decision == Supersede) != (s.Successor != ""):
		return refuse(CheckForm, "a successor is named where, and only where, something is superseded")
	case s.Expires.IsZero() || s.Expires.Nanosecond() != 0 || s.Expires.Year() > 9999:
		return refuse(CheckForm, "expires is no time in whole seconds")
	case len(s.Reason) > MaxReason:
		return refuse(CheckForm, "the reason has %d bytes, at most %d are possible", len(s.Reason), MaxReason)
	}
	for _, v := range []string{s.Project, s.Belief, s.Revision, s.Successor, s.Reason} {
		if !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return refuse(CheckForm, "%q holds control characters or is no UTF-8", clip(v))
		}
	}
	return nil
}

// SignedBelief is an attestation whose signature was verified.
type SignedBelief struct {
	BeliefStatement
	Signer string   // name of the key
	Pin    keys.Pin // what is pinned of it
	// Passkey is set where a passkey signed, and Counter is its count of signatures then.
	Passkey bool
	Counter uint32
}

// OpenBelief verifies that msg is an attestation, signed by exactly one key, which is
// pinned. It does not check yet what the key may do: see Judge. An error is an *Error.
func OpenBelief(msg []byte, trust *keys.Trust) (*SignedBelief, error) {
	s := new(SignedBelief)
	by, err := openStatement(msg, trust, &s.BeliefStatement, s.Text)
	if err != nil {
		return nil, err
	}
	s.Signer, s.Pin = by.name, by.pin
	s.Passkey, s.Counter = by.count()
	return s, nil
}

// CheckBelief fails for an attestation that does not name the belief it came for, or
// names an unknown one.
const CheckBelief Check = "belief"

// CheckContent fails if it was signed for other bytes.
const CheckContent Check = "content"

// CheckMove fails if the belief's state does not allow the decision.
const CheckMove Check = "move"

// BeliefCase is the present state of the belief of an attestation.
type BeliefCase struct {
	Project  string
	Agent    string // that wrote it
	Belief   string // empty: there is none
	Content  string // digest
	Revision string
	Role     keys.Role // that a person's key must have
	Now      time.Time // ledger time
	Used     bool      // the nonce was used before
	// Counter is the highest obeyed counter of the signer's passkey.
	Counter uint32
}

// Judge returns why a verified attestation may not be obeyed, as an *Error, or nil.
func (s *SignedBelief) Judge(c *BeliefCase) error {
	switch {
	case s.Project != c.Project || s.Belief != c.Belief || c.Belief == "":
		return refuse(CheckBelief, "it is for belief %s of project %s", clip(s.Belief), clip(s.Project))
	case c.Used:
		return refuse(CheckReplayed, "its nonce was used before: each word counts once")
	}
	if err := grown(s.Signer, s.Passkey, s.Counter, c.Counter); err != nil {
		return err
	}
	if err := inTime(s.Expires, c.Now); err != nil {
		return err
	}
	switch {
	case !s.Person(c.Role) && !(s.Decision == Confirm && slices.Contains(s.Pin.Roles, keys.RoleProbe)):
		return refuse(CheckRole, "key %q lacks the role %s", s.Signer, c.Role)
	case s.Pin.Agent != "" && s.Pin.Agent == c.Project+"/"+c.Agent:
		return refuse(CheckSelf, "key %q belongs to agent %s, which wrote it", s.Signer, s.Pin.Agent)
	case s.Content != c.Content:
		return refuse(CheckContent, "it is for content %s, the belief's is %s", s.Content, c.Content)
	case s.Revision != c.Revision:
		return refuse(CheckRevision, "it is for revision %s, the belief has revision %s: look at it again",
			clip(s.Revision), c.Revision)
	}
	return nil
}

// Person reports whether a person who may attest holds the key.
func (s *SignedBelief) Person(role keys.Role) bool {
	if role == "" {
		role = keys.RoleApprover
	}
	return slices.Contains(s.Pin.Roles, role)
}
