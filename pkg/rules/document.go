package rules

import "lazaret/streams"

// RuleDoc is the YAML form of a rule.
type RuleDoc struct {
	ID          string   `yaml:"id" is:"id,required" doc:"The rule's name in alerts and exceptions."`
	Title       string   `yaml:"title" is:"required" doc:"One line that says what has happened when the rule fires."`
	Description string   `yaml:"description" doc:"Why this matters."`
	Severity    string   `yaml:"severity" is:"severity,required" doc:"How bad the finding is if it is true."`
	Status      string   `yaml:"status" is:"status" doc:"How well the rule is tested. Default: stable."`
	Tags        []string `yaml:"tags" is:"tag" doc:"Entries of public lists, such as owasp.asi06, atlas.aml-t0080, cwe-94 and arxiv.2402.07867."`
	On          []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that the rule is evaluated for."`
	When        string   `yaml:"when" is:"required" doc:"The rule fires if this is true: a boolean in CEL. lazaret rules fields lists the names that it may use."`
	ForEach     string   `yaml:"for_each" doc:"A list in CEL. The condition is evaluated for each element, which is then the value of the variable it."`
	Effect      string   `yaml:"effect" is:"effect,required" doc:"The effect that the rule asks for."`
	Subject     string   `yaml:"subject" is:"subject,required" doc:"The kind of thing that the alert is about."`
	SubjectID   string   `yaml:"subject_id" doc:"The id of the alert's subject, in CEL, if it is not the event's own."`
	OnError     string   `yaml:"on_error" is:"effect" doc:"The effect if the evaluation fails. Required unless effect is alert."`
	Message     string   `yaml:"message" is:"required" doc:"The alert's message: a text in CEL."`
	Mode        string   `yaml:"mode" is:"mode" doc:"Default: enforce. A shadow rule is recorded and has no effect."`
	FalsePos    string   `yaml:"false_positives" doc:"Harmless events that the rule also flags."`
}

// FileDoc is the YAML form of a rule file.
type FileDoc struct {
	Rules []RuleDoc `yaml:"rules" doc:"Rules, in any order. All are evaluated."`
}

// PackDoc is the YAML form of a pack's pack.yaml. common.yaml has the same form; its lists, macros and signals may be
// used by every pack.
type PackDoc struct {
	Name        string              `yaml:"name" is:"required" doc:"The name of the pack's folder."`
	Title       string              `yaml:"title" doc:"One line that says what the pack is about."`
	Description string              `yaml:"description" doc:"A longer description."`
	Lists       map[string][]string `yaml:"lists" is:"names" doc:"Lists of texts, used in expressions as lists.<name>."`
	Macros      map[string]string   `yaml:"macros" is:"names" doc:"CEL expressions, used in other expressions as macros.<name>."`
	Signals     []SignalDoc         `yaml:"signals" doc:"Counts and sequences of events, used in expressions as signal.<name>."`
}

// GroupsDoc is the YAML form of groups.yaml.
type GroupsDoc struct {
	Extends string              `yaml:"extends" doc:"If this is shipped, the set is added to the shipped packs and groups."`
	Groups  map[string][]string `yaml:"groups" is:"required,ids" doc:"The packs of each sentinel group."`
}

// ExceptionsDoc is the YAML form of exceptions.yaml.
type ExceptionsDoc struct {
	Exceptions []exceptionDoc `yaml:"exceptions" doc:"Exceptions from rules."`
}

// exceptionDoc is the YAML form of an exception to rules. It has the rules that it is for, its condition, its owner,
// its reason and its expiry.
type exceptionDoc struct {
	ID      string   `yaml:"id" is:"id,required" doc:"The exception's name in alerts."`
	Rules   []string `yaml:"rules" is:"id,required,some" doc:"The rules that the exception is for."`
	When    string   `yaml:"when" is:"required" doc:"Condition under which the exception applies: a boolean in CEL."`
	Owner   string   `yaml:"owner" is:"required" doc:"The person to ask about the exception."`
	Reason  string   `yaml:"reason" is:"required" doc:"The reason for the exception."`
	Expires string   `yaml:"expires" is:"date,required" doc:"The day from which the exception no longer applies, such as 2027-01-31."`
}

// Values that rules may have.
var (
	Severities = []string{"info", "low", "medium", "high", "critical"}
	Statuses   = []string{"stable", "test", "experimental", "deprecated"}
	Modes      = []string{"enforce", "shadow", "off"}
	Effects    = []string{"alert", "hold", "deny", "restrict", "quarantine", "mask", "annotate", "spotlight"}
	Subjects   = []string{"action", "belief", "decision", "session", "source", "memory", "observation", "tool"}
	// textKinds are the kinds of events that have a text which someone receives: the arbiter returns the texts of a
	// recall to an agent, and the agent's host returns an answer to the user.
	textKinds = []string{"recall", "outcome"}
)

// Kinds are the kinds of events on which rules are evaluated: the kinds of clients' events, and `belief` for beliefs
// that are judged again.
var Kinds = func() (out []string) {
	for _, k := range streams.Kinds {
		out = append(out, string(k.About().Type))
	}
	return append(out, kindBelief)
}()

// SignalDoc is the YAML form of a declared signal. Exactly one of count, distinct and sequence must be set.
type SignalDoc struct {
	Name     string    `yaml:"name" is:"id,required" doc:"The signal's name, used in expressions as signal.<name>."`
	Doc      string    `yaml:"doc" is:"required" doc:"The meaning of the signal's value."`
	Count    *countDoc `yaml:"count" doc:"Counts events."`
	Distinct *countDoc `yaml:"distinct" doc:"Counts the different values of events."`
	Sequence *seqDoc   `yaml:"sequence" doc:"Finds events that match the steps in order, with any events in between. Its value is the list of their ids."`
}

// countDoc is the YAML form of a count: of events, or of the different values of an expression in events.
type countDoc struct {
	On     []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that are counted."`
	When   string   `yaml:"when" doc:"Condition under which an event is counted: a boolean in CEL."`
	Key    string   `yaml:"key" is:"required" doc:"Each key has its own count: a text in CEL, such as event.agent."`
	Value  string   `yaml:"value" doc:"For distinct: the value that is compared, a text in CEL."`
	Window string   `yaml:"window" is:"duration,required" doc:"How far back events are counted, such as 10m or 72h."`
	Max    int      `yaml:"max" is:"count" doc:"The largest count. Default: 1024."`
}

// seqDoc is the YAML form of a sequence: steps that happen in this order. Other events may come in between.
type seqDoc struct {
	Key    string    `yaml:"key" is:"required" doc:"Each key has its own sequences: a text in CEL, such as event.agent + '/' + event.session."`
	Window string    `yaml:"window" is:"duration,required" doc:"Longest time from the first step to the last, such as 24h."`
	Steps  []stepDoc `yaml:"steps" is:"required,steps" doc:"The steps, in order."`
}

type stepDoc struct {
	On   []string `yaml:"on" is:"kind,required,some" doc:"Kinds of events that can match the step."`
	When string   `yaml:"when" is:"required" doc:"Condition under which an event matches the step: a boolean in CEL."`
	// Within is empty for the first step.
	Within string `yaml:"within" is:"duration" doc:"Longest time since the step before, such as 5m. Default: no limit."`
}
