package approval

import (
	"slices"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
)

// BeliefVersion begins the text of every signed attestation of a belief.
const BeliefVersion = "lazaret/belief/v1"

// The decisions on a belief. A confirmation needs the key of a person (role approver) or of a verification run (role
// probe). All other decisions need the key of a person.
const (
	Confirm      Decision = "confirm"    // true: believed and served
	RejectBelief Decision = "reject"     // unwanted: quarantined, with a tombstone
	Quarantine   Decision = "quarantine" // out of service, for review
	// the suspicion was unfounded: usable as context only, until the belief is confirmed
	ClearBelief  Decision = "clear"
	Block        Decision = "block"          // never served
	Unblock      Decision = "unblock"        // no longer blocked, but hidden like a new candidate
	Malicious    Decision = "malicious"      // an attack; this decision is final
	Supersede    Decision = "supersede"      // replaced by a named successor
	Contradict   Decision = "contradict"     // false
	Restrict     Decision = "restrict"       // context only
	AuditOnly    Decision = "audit_only"     // served only to audits
	EndAuditOnly Decision = "end_audit_only" // context only again
)

var beliefDecisions = []Decision{Confirm, RejectBelief, Quarantine, ClearBelief, Block, Unblock, Malicious, Supersede,
	Contradict, Restrict, AuditOnly, EndAuditOnly}

// Withdraws reports whether a decision takes a belief out of service. Such a decision also ends what earlier signatures
// allowed: findings that they cleared count again.
func (d Decision) Withdraws() bool {
	return d == RejectBelief || d == Quarantine || d == Malicious || d == Contradict
}

// BeliefDecisions returns every decision on a belief.
func BeliefDecisions() []Decision { return slices.Clone(beliefDecisions) }

// BeliefStatement is a person's signed decision on one belief (an attestation). It is about the exact bytes of the
// belief, and about the state in which the signer saw it.
type BeliefStatement struct {
	Belief   string    `json:"belief"`
	Content  string    `json:"content"` // digest of the exact bytes
	Decision Decision  `json:"decision"`
	Expires  time.Time `json:"expires"` // whole seconds, UTC
	// Findings are the keys of the findings on the belief that the signer saw (streams.FindingKey), in order. A
	// confirmation clears these findings: recalls then serve the belief in spite of them.
	Findings  []string `json:"findings,omitempty"`
	Nonce     string   `json:"nonce"` // hex
	Project   string   `json:"project"`
	Reason    string   `json:"reason,omitzero"`
	Revision  string   `json:"revision"`
	Successor string   `json:"successor,omitzero"` // id of the belief that replaces it
	Version   string   `json:"v"`
}

// MaxFindings is the maximum number of findings that an attestation may name.
const MaxFindings = 32

// Text returns the text that is signed.
func (s *BeliefStatement) Text() (string, error) { return canonical(s) }

// Sign returns the statement as a signed note.
func (s *BeliefStatement) Sign(signer note.Signer) ([]byte, error) { return signStatement(s, signer) }

func (s *BeliefStatement) check() error {
	switch {
	case s.Version != BeliefVersion:
		return refuse(CheckForm, "version is %q, want %q", clip(s.Version), BeliefVersion)
	case !slices.Contains(beliefDecisions, s.Decision):
		return refuse(CheckForm, "decision is %q, use one of %v", clip(string(s.Decision)), beliefDecisions)
	case !isHex(s.Nonce, 2*NonceSize):
		return refuse(CheckForm, "nonce %q must be %d bytes in lower-case hex", clip(s.Nonce), NonceSize)
	case !isDigest(s.Content):
		return refuse(CheckForm, "content %q must be %s followed by 32 bytes in lower-case hex", clip(s.Content),
			digestPrefix)
	case s.Project == "" || s.Belief == "" || s.Revision == "":
		return refuse(CheckForm, "project, belief and revision must be named")
	case (s.Decision == Supersede) != (s.Successor != ""):
		return refuse(CheckForm, "a successor must be named if the belief is superseded, and only then")
	case !wholeSeconds(s.Expires):
		return refuse(CheckForm, "expires is not a time in whole seconds")
	case len(s.Findings) > 0 && s.Decision != Confirm:
		return refuse(CheckForm, "findings are named, but only a confirmation clears findings")
	case len(s.Findings) > MaxFindings || !slices.IsSorted(s.Findings) || len(slices.Compact(slices.Clone(s.Findings))) <
		len(s.Findings) || slices.ContainsFunc(s.Findings, func(k string) bool { return !isDigest(k) }):
		return refuse(CheckForm, "findings must be at most %d different digests, in ascending order", MaxFindings)
	case len(s.Reason) > MaxReason:
		return refuse(CheckForm, "the reason has %d bytes, at most %d are possible", len(s.Reason), MaxReason)
	}
	return checkTexts(s.Project, s.Belief, s.Revision, s.Successor, s.Reason)
}

// SignedBelief is an attestation with a verified signature.
type SignedBelief struct {
	BeliefStatement
	Signature
}

// OpenBelief verifies that msg is an attestation that exactly one pinned key has signed. It does not check whether the
// key may decide on the belief: see Judge. Every error is an *Error.
func OpenBelief(msg []byte, trust *keys.Trust) (*SignedBelief, error) {
	s := new(SignedBelief)
	if err := openStatement(msg, trust, &s.BeliefStatement, &s.Signature); err != nil {
		return nil, err
	}
	return s, nil
}

// CheckBelief fails if the attestation is not for the belief in the request, or if the belief does not exist.
const CheckBelief Check = "belief"

// CheckContent fails if the attestation was signed for other bytes than those of the belief.
const CheckContent Check = "content"

// CheckMove fails if the decision is not possible in the belief's current state.
const CheckMove Check = "move"

// BeliefCase is the current state of the belief to which an attestation belongs.
type BeliefCase struct {
	Project  string
	Agent    string // the agent that wrote it
	Belief   string // empty: the belief does not exist
	Content  string // digest of the content
	Revision string
	Role     keys.Role // the role that a person's key must have
	Now      time.Time // ledger time
	Used     bool      // the nonce was used before
	// Counter is the highest counter of the signer's passkey in a statement that was accepted.
	Counter uint32
}

// Judge returns nil if a verified attestation may be accepted in this state of the belief. Otherwise it returns an
// *Error.
func (s *SignedBelief) Judge(c *BeliefCase) error {
	switch {
	case s.Project != c.Project || s.Belief != c.Belief || c.Belief == "":
		return refuse(CheckBelief, "it is for another belief: %s of project %s", clip(s.Belief), clip(s.Project))
	case c.Used:
		return refuse(CheckReplayed, "its nonce was used before: each attestation counts once")
	}
	if err := s.grown(c.Counter); err != nil {
		return err
	}
	if err := inTime(s.Expires, c.Now); err != nil {
		return err
	}
	switch {
	case !s.Person(c.Role) && !(s.Decision == Confirm && slices.Contains(s.Pin.Roles, keys.RoleProbe)):
		return refuse(CheckRole, "key %q lacks the role %s", s.Signer, c.Role)
	case s.Pin.Agent != "" && s.Pin.Agent == c.Project+"/"+c.Agent:
		return refuse(CheckSelf, "key %q belongs to agent %s, which wrote the belief itself", s.Signer, s.Pin.Agent)
	case s.Content != c.Content:
		return refuse(CheckContent, "it is for content %s, but the belief's content is %s", s.Content, c.Content)
	case s.Revision != c.Revision:
		return refuse(CheckRevision, "it is for revision %s, but the belief now has revision %s: look at the belief again",
			clip(s.Revision), c.Revision)
	}
	return nil
}

// Person reports whether the key has the role, and thus belongs to a person who may decide on the belief. An empty role
// means approver.
func (s *SignedBelief) Person(role keys.Role) bool {
	if role == "" {
		role = keys.RoleApprover
	}
	return slices.Contains(s.Pin.Roles, role)
}
