package approval

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"lazaret/pkg/keys"
)

func attestation() *BeliefStatement {
	return &BeliefStatement{Version: BeliefVersion, Project: "acme", Belief: "b7aa553e26b5780e7",
		Content: "sha256:" + strings.Repeat("0a", 32), Revision: "ade7160eb1e84b2a", Decision: Confirm,
		Expires: now.Add(10 * time.Minute), Nonce: NewNonce(), Reason: "I know it"}
}

func beliefCase(s *BeliefStatement) *BeliefCase {
	return &BeliefCase{Project: s.Project, Agent: "bot", Belief: s.Belief, Content: s.Content, Revision: s.Revision,
		Now: now}
}

func TestEachFailureOfAnAttestationHasItsCheck(t *testing.T) {
	trust := new(keys.Trust)
	alice := signerOf(t, trust, "alice", "", keys.RoleApprover)
	operator := signerOf(t, trust, "operator", "", keys.RoleOperator, keys.RoleAuditor)
	probe := signerOf(t, trust, "probe", "", keys.RoleProbe)
	bot := signerOf(t, trust, "bot", "acme/bot", keys.RoleApprover)
	checking := signerOf(t, trust, "checking", "acme/bot", keys.RoleProbe)
	namesake := signerOf(t, trust, "alice", "")
	decides := func(d Decision) func(*BeliefStatement) {
		return func(s *BeliefStatement) {
			if s.Decision = d; d == Supersede {
				s.Successor = "b0"
			}
		}
	}
	type attempt struct {
		what string
		by   note.Signer
		say  func(s *BeliefStatement)
		is   func(c *BeliefCase)
		want Check
	}
	all := []attempt{
		{"nothing wrong", alice, nil, nil, ""},
		{"a namesake's key", namesake, nil, nil, CheckUnpinned},
		{"an operator", operator, nil, nil, CheckRole},
		{"a probe confirms", probe, nil, nil, ""},
		{"not of finance", alice, nil, func(c *BeliefCase) { c.Role = keys.ApproverPrefix + "finance" }, CheckRole},
		{"the agent itself", bot, nil, nil, CheckSelf},
		{"a probe of the agent itself", checking, nil, nil, CheckSelf},
		{"another agent's key", bot, nil, func(c *BeliefCase) { c.Agent = "other" }, ""},
		{"the key of an agent of that name in another project", bot, func(s *BeliefStatement) { s.Project = "other" },
			nil, ""},
		{"another belief", alice, func(s *BeliefStatement) { s.Belief = "b0" },
			func(c *BeliefCase) { c.Belief = "b1" }, CheckBelief},
		{"another project", alice, nil, func(c *BeliefCase) { c.Project = "other" }, CheckBelief},
		{"no belief", alice, nil, func(c *BeliefCase) { c.Belief = "" }, CheckBelief},
		{"another content", alice, nil, func(c *BeliefCase) { c.Content = "sha256:" + strings.Repeat("0b", 32) },
			CheckContent},
		{"an older revision", alice, func(s *BeliefStatement) { s.Revision = "00" },
			func(c *BeliefCase) { c.Revision = "01" }, CheckRevision},
		{"expired", alice, func(s *BeliefStatement) { s.Expires = now }, nil, CheckExpired},
		{"used", alice, nil, func(c *BeliefCase) { c.Used = true }, CheckReplayed},
	}
	for _, d := range BeliefDecisions() {
		all = append(all, attempt{"the agent itself: " + string(d), bot, decides(d), nil, CheckSelf},
			attempt{"a person: " + string(d), alice, decides(d), nil, ""})
		if d != Confirm {
			all = append(all, attempt{"a probe: " + string(d), probe, decides(d), nil, CheckRole})
		}
	}
	for _, c := range all {
		s := attestation()
		if c.say != nil {
			c.say(s)
		}
		is := beliefCase(s)
		if c.is != nil {
			c.is(is)
		}
		msg, err := s.Sign(c.by)
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		signed, err := OpenBelief(msg, trust)
		if err == nil {
			err = signed.Judge(is)
		}
		if c.want == "" && err != nil || c.want != "" && !errors.Is(err, &Error{Check: c.want}) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
}

func TestOnlyAConfirmationNamesFindings(t *testing.T) {
	alice := signerOf(t, new(keys.Trust), "alice", "")
	finding := func(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }
	for _, d := range BeliefDecisions() {
		s := attestation()
		if s.Decision = d; d == Supersede {
			s.Successor = "b0"
		}
		if _, err := s.Sign(alice); err != nil {
			t.Errorf("%s without findings: %v", d, err)
		}
		s.Findings = []string{finding("1"), finding("2")}
		if _, err := s.Sign(alice); d == Confirm && err != nil || d != Confirm && !errors.Is(err, &Error{Check: CheckForm}) {
			t.Errorf("%s with findings: %v", d, err)
		}
	}
	s := attestation()
	for _, bad := range [][]string{{"x"}, {""}, {finding("2"), finding("1")}, {finding("1"), finding("1")},
		slices.Repeat([]string{finding("1")}, MaxFindings+1)} {
		s.Findings = bad
		if _, err := s.Sign(alice); !errors.Is(err, &Error{Check: CheckForm}) {
			t.Errorf("findings %.80q: %v", bad, err)
		}
	}
}
