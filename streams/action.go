package streams

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// KindAct is the kind of a proposed action, and TypeAction the type of its entries.
const (
	KindAct    Kind = "act"
	TypeAction Type = "action"
)

func init() {
	register[Action](EventKind{
		Kind: KindAct, Type: TypeAction, Order: 7,
		Proposal: true,
		Required: []string{"tool"},
		Title:    "an action",
		Fields: "`tool`, `args` (object), `decision`, `beliefs`, `confidence` (0 to 1), `level` (L0 to L5, " +
			"raises only), `blast_radius`, `reversibility`, `sensitivity` (of its data; cited beliefs raise it), " +
			"`preconditions` (`[{what, digest}]`, at most 16: recorded; the program that carries the action out checks " +
			"them), `host_verdict`, `replaces` (id of a held proposal that this one edits), `after`, `loads` (files that it " +
			"writes and that agents or programs load by themselves, relative to the project's folder)",
	})
}

// Action (kind act) is an action that waits for a verdict.
type Action struct {
	Head
	Tool          string                `json:"tool"`
	Args          jsontext.Value        `json:"args,omitzero"` // a JSON object
	Decision      string                `json:"decision,omitzero"`
	Beliefs       []string              `json:"beliefs,omitzero"`
	Confidence    *float64              `json:"confidence,omitzero"` // the agent's confidence, 0 to 1
	Level         *beliefs.Level        `json:"level,omitzero"`      // may raise the policy's level, never lower it
	Blast         beliefs.BlastRadius   `json:"blast_radius,omitzero"`
	Reversibility beliefs.Reversibility `json:"reversibility,omitzero"`
	// Sensitivity is the sensitivity of the data that the action handles. Cited beliefs of
	// a higher sensitivity raise it.
	Sensitivity beliefs.Sensitivity `json:"sensitivity,omitzero"`
	// Preconditions are conditions that, according to the proposer, must be true when the
	// action is carried out. The pipeline only records them; the host that carries the action out
	// checks them.
	Preconditions []beliefs.Precondition `json:"preconditions,omitzero"`
	Host          string                 `json:"host_verdict,omitzero"` // the host's verdict: allow, hold or deny
	// Replaces is the id of a held proposal of the same agent, which this proposal edits. The hold of the replaced
	// proposal is cancelled. A decision about that proposal, such as an approval, does not apply to this one.
	Replaces string `json:"replaces,omitzero"`
	// After is the last intake sequence that was acknowledged to the host before the agent proposed
	// this action.
	After uint64 `json:"after,omitzero"`
	// Catalogue says where the host took the tool from: the ApproveToolsArgs.Binding of a server's accepted tools, or a
	// name for the host's own tools, such as claude-code.
	Catalogue string `json:"catalogue,omitzero"`
	// Loads are files that the action writes and that agents or programs load by themselves, such as CLAUDE.md. Only a
	// host that knows the project's folder, and where links lead, sets them. A path in this folder is relative to it.
	Loads []string `json:"loads,omitzero"`
}

// MaxLoads is the maximum number of Action.Loads, and MaxLoaded the maximum length of each of them, in bytes.
const (
	MaxLoads  = 16
	MaxLoaded = 4096
)

// MaxCatalogue is the maximum length of Action.Catalogue, in bytes.
const MaxCatalogue = 128

// MaxPreconditions is the maximum number of preconditions of an action.
const MaxPreconditions = 16

// Shown summarizes the texts that an agent was shown in a session. The policy section `delegation` uses it to decide
// whether an action is what the user wants.
type Shown struct {
	Foreign int  `json:"foreign,omitzero"` // number of texts that came from neither the user nor the operator
	Order   int  `json:"order,omitzero"`   // highest text.CommandScore of these texts
	Unread  bool `json:"unread,omitzero"`  // set if rules could not read one of the session's texts completely
	// Leans is set if an address or account in the action's arguments came from external content of the project, in any
	// session, and the user never named it.
	Leans bool `json:"leans,omitzero"`
	// Marked is set if the action's arguments repeat words of a memory whose sensitivity is confidential or secret.
	Marked bool `json:"marked,omitzero"`
}

func (e *Action) check(a Address) error {
	if e.Tool == "" {
		return rejectf(CodeInvalid, "an action needs a tool")
	}
	if len(e.Args) > 0 && e.Args.Kind() != '{' && e.Args.Kind() != 'n' {
		return rejectf(CodeInvalid, "args must be a JSON object")
	}
	if c := e.Confidence; c != nil && !(*c >= 0 && *c <= 1) {
		return rejectf(CodeInvalid, "confidence is %v, use 0 to 1", *c)
	}
	if e.Host != "" {
		if _, err := ParseVerdict(e.Host); err != nil {
			return rejectf(CodeInvalid, "host_verdict: %v", err)
		}
	}
	if err := refs("beliefs", e.Beliefs); err != nil {
		return err
	}
	if len(e.Preconditions) > MaxPreconditions {
		return rejectf(CodeInvalid, "%d preconditions, at most %d are admitted", len(e.Preconditions), MaxPreconditions)
	}
	for _, p := range e.Preconditions {
		if p.What == "" {
			return rejectf(CodeInvalid, "a precondition needs `what`: the resource that it is about")
		}
		if err := names(p.What, "precondition", p.Digest, "digest of a precondition"); err != nil {
			return err
		}
	}
	if len(e.Catalogue) > MaxCatalogue {
		return rejectf(CodeInvalid, "catalogue has %d bytes, at most %d are admitted", len(e.Catalogue), MaxCatalogue)
	}
	if len(e.Loads) > MaxLoads || slices.ContainsFunc(e.Loads, func(s string) bool { return len(s) > MaxLoaded }) {
		return rejectf(CodeInvalid, "loads has more than %d paths, or one of more than %d bytes", MaxLoads, MaxLoaded)
	}
	if e.Replaces != "" && !ValidID(e.Replaces) {
		return rejectf(CodeInvalid, "replaces: %v", CheckID("id", e.Replaces))
	}
	if e.Tool == RegisterPrompt {
		args := new(RegisterPromptArgs)
		if err := Unmarshal(e.Args, args); err != nil {
			return rejectf(CodeInvalid, "args of %s: %v", e.Tool, err)
		}
		if err := args.Check(); err != nil {
			return rejectf(CodeInvalid, "args of %s: %v", e.Tool, err)
		}
	}
	return names(e.Tool, "tool", e.Decision, "decision")
}

// ActionEntry is the body of a proposed action.
type ActionEntry struct {
	EntryHead
	beliefs.Action
	Args     jsontext.Value `json:"args,omitzero"`
	Text     string         `json:"text,omitzero"` // all strings in the arguments, one per line
	Features text.Features  `json:"features,omitzero"`
	Beliefs  []BeliefRef    `json:"beliefs,omitzero"` // cited by it or by its decision
	Matched  string         `json:"matched,omitzero"` // policy entry that set the level; empty if none matched
	Host     *Verdict       `json:"host_verdict,omitzero"`
	Replaces string         `json:"replaces,omitzero"`  // id of a held proposal that this one edits
	Unseen   bool           `json:"unseen,omitzero"`    // the session has a rejected observation
	UnseenBy *Unseen        `json:"unseen_by,omitzero"` // the first rejected observation
	// Restored is set if Action.After is not below the sequence of the event's own message. After names an earlier
	// message, so it is normally below. Otherwise the intake was restored from an older copy, and the action is held.
	Restored bool `json:"restored,omitzero"`
	// Annotations are the annotations of the tool in its MCP catalogue that raise the action's level.
	Annotations jsontext.Value `json:"annotations,omitzero"`
	// Intent relates the action to what the user asked for in the session. It is nil if there is no
	// relation.
	Intent *intent.Relation `json:"intent,omitzero"`
	// Sources are the sources that the user named and that contain values of the call's arguments. They are
	// set for an action of L3 or above.
	Sources []intent.Grounds `json:"sources,omitzero"`
	// Repeats is the id of an earlier proposal of the same call by the same agent, or empty. No rule had a finding on
	// the earlier proposal. In its session, the user had said nearly the same words as in this session.
	Repeats string `json:"repeats,omitzero"`
	// Catalogue is Action.Catalogue: where the host took the tool from. Accepted is the level that a person signed for
	// the tool in that catalogue.
	Catalogue string         `json:"catalogue,omitzero"`
	Accepted  *beliefs.Level `json:"accepted,omitzero"`
	// Loads are the files that the action writes and that agents or programs load by themselves, as the host states them.
	Loads []string `json:"loads,omitzero"`
	// Shown summarizes the texts that the session was shown before this action. It is nil if the user
	// said nothing in the session.
	Shown *Shown `json:"shown,omitzero"`
}
