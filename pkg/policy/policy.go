package policy

import (
	"bytes"
	"cmp"
	_ "embed"
	"slices"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/internal/strictyaml"
	"lazaret/pkg/keys"
	"lazaret/streams"
)

// Defaults and limits of the fields of a policy.
const (
	DefaultDeadline     = 2 * time.Second // for the answers of sentinel groups
	MinDeadline         = 10 * time.Millisecond
	MaxDeadline         = 5 * time.Minute
	DefaultHoldExpiry   = 24 * time.Hour // enough for a person in another time zone
	MinHoldExpiry       = time.Second
	MaxHoldExpiry       = 30 * 24 * time.Hour
	MinReaudit          = time.Second
	MaxReaudit          = 366 * 24 * time.Hour
	DefaultMaxOpenHolds = 20 // per tool and session; people do not work through longer queues
	MaxMaxOpenHolds     = 10_000
	MaxMaxHoldRate      = 10_000
	MaxGroups           = 64
	MaxEntries          = 4096
)

// version is the version of policy documents.
const version = 1

// DefaultName is the name of the shipped policy in errors.
const DefaultName = "default.yaml"

// Default is the text of the shipped policy, including its profiles of well-known servers.
var Default = func() []byte {
	head, tail, _ := bytes.Cut(defaultText, []byte(profilesHere))
	return slices.Concat(head, bytes.TrimLeft(profilesText, "\n"), tail)
}()

// profilesHere marks the position of the profiles in the shipped policy.
const profilesHere = "# PROFILES\n"

var (
	//go:embed default.yaml
	defaultText []byte
	//go:embed profiles.yaml
	profilesText []byte
)

// Error is an error in a policy's text, with file, line, column and the text of the line.
type Error = strictyaml.Error

// External begins the digest of a group that uses no rule set of Lazaret. The rest of the digest is
// the version that the operator signed.
const External = "external:"

// Group is a sentinel group that must assess every proposal.
type Group struct {
	Name string
	// Digest is the digest that the group's assessments must have: External and a version. Empty
	// means the digest of the rule set in force.
	Digest string
	// Deadline is how long the arbiter waits for the group. Zero means the policy's deadline for
	// the action's level.
	Deadline time.Duration
	// OnDemand means that the group assesses only the actions for which an entry of the policy requires this group.
	OnDemand bool
}

// Mode says whether verdicts are enforced.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Learn   Mode = "learn" // verdicts are only recorded
)

// Policy is a compiled policy. It is safe for concurrent use. Its fields must not be changed.
type Policy struct {
	Name   string
	Mode   Mode
	Digest string // digest of the text, as in activations
	// Groups are the sentinel groups that must assess proposals. If it is empty, verdicts depend on
	// the ladder, the host and the beliefs only.
	Groups []Group
	// OnSilent is the verdict if a group has not answered in time: Hold or Deny.
	OnSilent   streams.Verdict
	HoldExpiry time.Duration
	// Reaudit is the interval at which sentinels judge anew all beliefs that may be served. Zero
	// means that they do so only when a rule set is activated.
	Reaudit time.Duration
	// MaxOpenHolds is the maximum number of open holds of one tool in one session of an agent, at least 1. An agent
	// may have ten times as many in all. A proposal that exceeds one of these limits is denied.
	MaxOpenHolds int
	// MaxHoldsPerMinute is the maximum number of holds that one agent may open within a minute.
	// Zero means no limit. A proposal that exceeds the limit is denied.
	MaxHoldsPerMinute int

	egress    egress
	protected []protected // by name

	deadlines [beliefs.L5 + 1]time.Duration
	entries   []entry // strictest first, then by name
	otherwise *entry  // nil: actions that match nothing are denied
	index     index
	contexts  map[string]beliefs.ContextPolicy // by purpose
	approver  keys.Role                        // empty: keys.RoleApprover
	standing  standings
	memory    memory
	incidents incidents
	uncited   Uncited
	delegated []delegation
	sources   *Sources // nil: no source can be approved
	profiles  []Profile
}

// Learn reports whether verdicts are only recorded.
func (p *Policy) Learn() bool { return p.Mode == Learn }

// Deadline returns how long the arbiter waits for the sentinels' answers to an action of a level.
func (p *Policy) Deadline(l beliefs.Level) time.Duration {
	return p.deadlines[min(int(l), len(p.deadlines)-1)]
}

// Wait returns how long the arbiter waits for a group's answer to an action of a level.
func (p *Policy) Wait(g Group, l beliefs.Level) time.Duration {
	return cmp.Or(g.Deadline, p.Deadline(l))
}

// Required returns the groups that must assess an action of a class.
func (p *Policy) Required(c Class) []Group {
	out := make([]Group, 0, len(p.Groups))
	for i, g := range p.Groups {
		if !g.OnDemand || c.groups>>i&1 == 1 {
			out = append(out, g)
		}
	}
	return out
}

// Always returns the groups that must assess every proposal.
func (p *Policy) Always() []Group { return p.Required(Class{}) }
