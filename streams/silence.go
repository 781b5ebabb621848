package streams

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// MaxSilence is the longest duration of a silence.
const MaxSilence = 90 * 24 * time.Hour

// Silence keeps a rule's alerts in a project out of lists and notifications until it expires. It changes no verdict:
// alerts are still raised and holds still opened. A silence is not signed. So By is only as trustworthy as the
// credential of the program that sent the silence to the intake.
type Silence struct {
	Rule    string    `json:"rule,omitzero"`
	Agent   string    `json:"agent,omitzero"` // empty: all agents
	Owner   string    `json:"owner,omitzero"` // person to ask about it
	Reason  string    `json:"reason,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	By      string    `json:"by"`            // the person's name in the program
	Ends    string    `json:"ends,omitzero"` // id of the silence to end now; the fields Rule to Expires are then empty
}

// Check returns an error if the silence is not valid. now is the present time.
func (s *Silence) Check(now time.Time) error {
	if s.By == "" {
		return errors.New("a silence must name the person who made it (by)")
	}
	if s.Ends != "" {
		if *s != (Silence{By: s.By, Ends: s.Ends}) {
			return errors.New("an entry that ends a silence must have no fields other than `by` and `ends`")
		}
		return cmp.Or(CheckID("id of the silence", s.Ends), checkLine("by", s.By))
	}
	if s.Owner == "" || s.Reason == "" {
		return errors.New("a silence needs an owner, whom others can ask about it, and a reason")
	}
	if !s.Expires.After(now) || s.Expires.After(now.Add(MaxSilence)) {
		return fmt.Errorf("a silence must expire within %d days from now", MaxSilence/(24*time.Hour))
	}
	if err := CheckID("rule", s.Rule); err != nil {
		return err
	}
	if s.Agent != "" {
		if err := CheckID("agent", s.Agent); err != nil {
			return err
		}
	}
	return cmp.Or(checkLine("owner", s.Owner), checkLine("reason", s.Reason), checkLine("by", s.By))
}

// Covers reports whether the silence applies to alerts of the rule and agent.
func (s *Silence) Covers(rule, agent string) bool {
	return s.Rule == rule && (s.Agent == "" || s.Agent == agent)
}

// SilenceEntry is the ledger body of a silence. The entry's id is the silence's id.
type SilenceEntry struct {
	EntryHead
	Silence Silence `json:"silence"`
}
