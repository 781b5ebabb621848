package rules

import "lazaret/streams"

// RuleDoc is the YAML form of a rule.
type RuleDoc struct {
	ID          string   `yaml:"id" is:"id,required" doc:"Names the rule, in alerts and in exceptions."`
	Title       string   `yaml:"title" is:"required" doc:"What has happened when it fires, in one line."`
	Description string   `yaml:"description" doc:"Why that matters."`
	Severity    string   `yaml:"severity" is:"severity,required" doc:"How bad it is when it is true."`
	Status      string   `yaml:"status" is:"status" doc:"How far it has been tried; stable unless said."`
	Tags        []string `yaml:"tags" is:"tag" doc:"Entries of public lists, such as owasp.asi06, atlas.aml-t0080, cwe-94 and arxiv.2402.07867."`
	On          []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that it looks at."`
	When        string   `yaml:"when" is:"required" doc:"Condition under which it fires: a boolean in CEL. lazaret rules fields lists what it may name."`
	ForEach     string   `yaml:"for_each" doc:"A list in CEL: the condition is asked of each element, which it calls it."`
	Effect      string   `yaml:"effect" is:"effect,required" doc:"What it asks for."`
	Subject     string   `yaml:"subject" is:"subject,required" doc:"What the alert is about."`
	SubjectID   string   `yaml:"subject_id" doc:"The id of what the alert is about, in CEL, where the event does not give it."`
	OnError     string   `yaml:"on_error" is:"effect" doc:"What it asks for when it fails; needed with any effect but alert."`
	Message     string   `yaml:"message" is:"required" doc:"What the alert says: a text in CEL."`
	Mode        string   `yaml:"mode" is:"mode" doc:"enforce unless said; shadow is recorded and has no effect."`
	FalsePos    string   `yaml:"false_positives" doc:"What it flags wrongly, for who sees the alert."`
}

// FileDoc is the YAML form of a rule file.
type FileDoc struct {
	Rules []RuleDoc `yaml:"rules" doc:"Rules, in any order: all are evaluated."`
}

// PackDoc is the YAML form of a pack's pack.yaml. common.yaml has the same lists, macros and
// signals, which every pack may use.
type PackDoc struct {
	Name        string              `yaml:"name" is:"required" doc:"The name of the pack's folder."`
	Title       string              `yaml:"title" doc:"What the pack is about, in one line."`
	Description string              `yaml:"description" doc:"The same at length."`
	Lists       map[string][]string `yaml:"lists" is:"names" doc:"Lists of texts, which expressions call lists.<name>."`
	Macros      map[string]string   `yaml:"macros" is:"names" doc:"Expressions in CEL, which others call macros.<name>."`
	Signals     []SignalDoc         `yaml:"signals" doc:"Counts and sequences of events, which expressions call signal.<name>."`
}

// GroupsDoc is the YAML form of groups.yaml.
type GroupsDoc struct {
	Extends string              `yaml:"extends" doc:"Set to shipped, it puts the set on top of the shipped packs and groups."`
	Groups  map[string][]string `yaml:"groups" is:"required,ids" doc:"The packs that each sentinel group judges by."`
}

// ExceptionsDoc is the YAML form of exceptions.yaml.
type ExceptionsDoc struct {
	Exceptions []exceptionDoc `yaml:"exceptions" doc:"Where rules do not apply."`
}

// exceptionDoc is the YAML form of an exception: the rules that it is for, its condition, owner,
// reason and expiry.
type exceptionDoc struct {
	ID      string   `yaml:"id" is:"id,required" doc:"Names the exception in alerts."`
	Rules   []string `yaml:"rules" is:"id,required,some" doc:"The rules that it is for."`
	When    string   `yaml:"when" is:"required" doc:"Condition under which it holds: a boolean in CEL."`
	Owner   string   `yaml:"owner" is:"required" doc:"Who may be asked."`
	Reason  string   `yaml:"reason" is:"required" doc:"Why it is there."`
	Expires string   `yaml:"expires" is:"date,required" doc:"The day from which it no longer holds, such as 2027-01-31."`
}

// Values that rules may have.
var (
	Severities = []string{"info", "low", "medium", "high", "critical"}
	Statuses   = []string{"stable", "test", "experimental", "deprecated"}
	Modes      = []string{"enforce", "shadow", "off"}
	Effects    = []string{"alert", "hold", "deny", "restrict", "quarantine", "mask", "annotate", "spotlight"}
	Subjects   = []string{"action", "belief", "decision", "session", "source", "memory", "observation", "tool"}
	// textKinds are the kinds of events whose text is returned to someone: the arbiter returns
	// recalled texts, and the agent's host returns answers.
	textKinds = []string{"recall", "outcome"}
)

// Kinds are the kinds of events that rules look at: those of clients, and beliefs that are
// judged again.
var Kinds = func() (out []string) {
	for _, k := range streams.Kinds {
		out = append(out, string(k.About().Type))
	}
	return append(out, kindBelief)
}()

// SignalDoc is the YAML form of a signal. It has exactly one of count, distinct and sequence.
type SignalDoc struct {
	Name     string    `yaml:"name" is:"id,required" doc:"Expressions call it signal.<name>."`
	Doc      string    `yaml:"doc" is:"required" doc:"What it means."`
	Count    *countDoc `yaml:"count" doc:"Counts events."`
	Distinct *countDoc `yaml:"distinct" doc:"Counts different values among events."`
	Sequence *seqDoc   `yaml:"sequence" doc:"Finds steps in order, with anything in between; its value is the ids of the events."`
}

// countDoc counts events, or the different values among them.
type countDoc struct {
	On     []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that count."`
	When   string   `yaml:"when" doc:"Condition under which an event counts: a boolean in CEL."`
	Key    string   `yaml:"key" is:"required" doc:"What is counted apart: a text in CEL, such as event.agent."`
	Value  string   `yaml:"value" doc:"Of distinct: what is to be different, a text in CEL."`
	Window string   `yaml:"window" is:"duration,required" doc:"How far back it sees, such as 10m or 72h."`
	Max    int      `yaml:"max" is:"count" doc:"How far it counts; 1024 unless said."`
}

// seqDoc finds steps in order, with anything in between.
type seqDoc struct {
	Key    string    `yaml:"key" is:"required" doc:"What sequences are kept apart by: a text in CEL, such as event.agent + '/' + event.session."`
	Window string    `yaml:"window" is:"duration,required" doc:"Time from the first step to the last, such as 24h."`
	Steps  []stepDoc `yaml:"steps" is:"required,steps" doc:"The steps, in order."`
}

type stepDoc struct {
	On   []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that may be the step."`
	When string   `yaml:"when" is:"required" doc:"Condition under which an event is the step: a boolean in CEL."`
	// Within is empty for the first step.
	Within string `yaml:"within" is:"duration" doc:"Longest time since the step before, such as 5m; any unless said."`
}
