package signals

import (
	"time"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// The types that expressions use. A field's CEL name is its cel tag. A field that an entry lacks
// has the zero value, so that reading it never fails.

// Event has the fields that all entries have in common.
type Event struct {
	Kind      string    `cel:"kind" doc:"observation, memory, recall, tools, session, decision, action, outcome, or belief when one is judged again"`
	ID        string    `cel:"id" doc:"the client's id of the event"`
	Project   string    `cel:"project"`
	Agent     string    `cel:"agent"`
	Session   string    `cel:"session"`
	Origin    string    `cel:"origin" doc:"who the content comes from, by credential"`
	External  bool      `cel:"external" doc:"the origin lies outside of user, operator and model"`
	Source    string    `cel:"source" doc:"where the content came from, as the host says"`
	Tool      string    `cel:"tool"`
	Time      time.Time `cel:"time" doc:"ledger time, or virtual time in synthetic projects"`
	Synthetic bool      `cel:"synthetic"`
	Size      int64     `cel:"size" doc:"of the content, bytes"`
}

// Content is text that was read, written or answered.
type Content struct {
	Text      string   `cel:"text" doc:"verbatim"`
	Views     []string `cel:"views" doc:"normalised, then decoded forms"`
	Markers   []string `cel:"markers" doc:"classes of instruction that a view carries: override, role, address, request, exfiltrate, secrecy, tool, persist, plea, answer, obey, hidden"`
	HasHidden bool     `cel:"has_hidden" doc:"zero-width, bidi or tag characters"`
	Score     int64    `cel:"command_score" doc:"how much it reads like an order to its reader, 0 to 100, by a linear text model; docs/detection.md has the false positives of each threshold"`
	Commands  []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Carriers  []string `cel:"carriers" doc:"addresses, hosts, accounts, paths and the like, as kind:value"`
	Kinds     []string `cel:"kinds" doc:"the kinds of its carriers: email, host, url, path, secret and the like"`
}

// Belief is the state of a belief when an entry cited it.
type Belief struct {
	ID          string  `cel:"id"`
	Found       bool    `cel:"found"`
	Kind        string  `cel:"kind" doc:"envelope, content or memory"`
	Key         string  `cel:"key"`
	Truth       string  `cel:"truth"`
	Retrieval   string  `cel:"retrieval"`
	Security    string  `cel:"security"`
	Freshness   string  `cel:"freshness"`
	Sensitivity string  `cel:"sensitivity"`
	Scope       string  `cel:"scope"`
	Quality     string  `cel:"quality" doc:"strongest class of evidence in support"`
	Origin      string  `cel:"origin" doc:"weakest origin that it derives from"`
	Confidence  float64 `cel:"confidence" doc:"0.10 to 0.95"`
	Source      string  `cel:"source"`
	Observation string  `cel:"observation" doc:"event that introduced it"`
}

// Memory is a memory write.
type Memory struct {
	Key       string   `cel:"key"`
	Category  string   `cel:"category"`
	Channel   string   `cel:"channel" doc:"write, compaction, skill or import"`
	Origin    string   `cel:"origin" doc:"who writes"`
	Inherited string   `cel:"inherited" doc:"weakest origin that it derives from, when weaker than the writer's"`
	External  bool     `cel:"external" doc:"the writer or what it derives from is external"`
	KeyHolder string   `cel:"key_holder" doc:"origin of the value that the key holds now"`
	Parents   []string `cel:"parents"`
	Repeats   int64    `cel:"repeats" doc:"how often the same content was met before in the project"`
	Age       float64  `cel:"age" doc:"seconds since the same content was first met; -1 if never"`
	Belief    *Belief  `cel:"belief"`
}

// Decision is a decision.
type Decision struct {
	Summary string    `cel:"summary"`
	Beliefs []*Belief `cel:"beliefs"`
}

// Action is a proposed action.
type Action struct {
	ID            string         `cel:"id"`
	Tool          string         `cel:"tool"`
	Level         int64          `cel:"level" doc:"0 to 5, by the policy"`
	Matched       string         `cel:"matched" doc:"policy entry that gave the level"`
	Effects       []string       `cel:"effects" doc:"read, write, egress, delete, pay, publish, exec, secret"`
	Acts          []string       `cel:"acts" doc:"what the tool does by its name and declared effects: send, delete, pay, grant, export and the like"`
	Args          map[string]any `cel:"args"`
	Text          string         `cel:"text" doc:"the arguments' strings, one a line"`
	Confidence    float64        `cel:"confidence" doc:"the agent's own; -1 when not stated"`
	Decision      string         `cel:"decision"`
	Beliefs       []*Belief      `cel:"beliefs" doc:"cited by it or by its decision"`
	Asked         bool           `cel:"asked" doc:"the user's words in the session ask for what the tool does"`
	Deed          bool           `cel:"deed" doc:"the user's words in the session ask for what the tool does, by whatever medium"`
	Strange       string         `cel:"strange" doc:"path of an argument that names a single thing, where the user's words name neither the tool's act nor any argument; else empty"`
	Other         string         `cel:"other" doc:"path of an argument that names a single thing, where the user asked for such an act for other things only; else empty"`
	Repeated      bool           `cel:"repeated" doc:"no rule found fault in the same call before, when the user had used nearly the same words"`
	Unseen        bool           `cel:"unseen" doc:"the session holds input that nobody judged"`
	BlastRadius   string         `cel:"blast_radius"`
	Reversibility string         `cel:"reversibility"`
}

// Recall is a retrieval from memory.
type Recall struct {
	Query    string      `cel:"query"`
	Key      string      `cel:"key"`
	Purpose  string      `cel:"purpose"`
	Admitted int64       `cel:"admitted" doc:"entries that the context policy admits"`
	Items    []*Recalled `cel:"items" doc:"what was found and not refused"`
}

// Recalled is one entry that a retrieval found.
type Recalled struct {
	ID         string   `cel:"id" doc:"of the belief"`
	Key        string   `cel:"key"`
	Similarity float64  `cel:"similarity" doc:"the store's score, 0 to 1; -1 when it gave none"`
	Overlap    float64  `cel:"overlap" doc:"share of the query's words that the content holds, 0 to 1"`
	Origin     string   `cel:"origin"`
	External   bool     `cel:"external"`
	Quality    string   `cel:"quality"`
	Source     string   `cel:"source"`
	Markers    []string `cel:"markers" doc:"classes of instruction in it, as in content.markers"`
	Hidden     bool     `cel:"hidden" doc:"zero-width, bidi or tag characters"`
	Score      int64    `cel:"command_score" doc:"how much it reads like an order, as content.command_score"`
	Commands   []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Kinds      []string `cel:"kinds" doc:"the kinds of its carriers"`
}

// Outcome is the result of an action, or the agent's answer.
type Outcome struct {
	Action    string  `cel:"action" doc:"id of the action"`
	Status    string  `cel:"status"`
	Kind      string  `cel:"kind" doc:"answer for an agent's answer, else empty"`
	Grounding float64 `cel:"grounding" doc:"how far an answer is supported by the sources that it names, 0 to 1; -1 when it names none"`
}

// Tools is a tool catalogue.
type Tools struct {
	Server string      `cel:"server"`
	Items  []*ToolInfo `cel:"items"`

	digest string // streams.CatalogueDigest
}

// ToolInfo is one tool of a catalogue.
type ToolInfo struct {
	Name        string   `cel:"name"`
	Description string   `cel:"description"`
	Hidden      bool     `cel:"hidden" doc:"zero-width, bidi or tag characters in its description or schema"`
	Markers     []string `cel:"markers" doc:"classes of instruction in its description or schema"`
	Drift       bool     `cel:"drift" doc:"description or schema differ from the first catalogue of this server, or the last one that a person accepted"`
	Shadows     string   `cel:"shadows" doc:"server that offered a tool of this name before; empty if none"`

	print string // hash of description and schema
}

// Input is the input of one evaluation.
type Input struct {
	Event    Event
	Content  Content
	Memory   Memory
	Decision Decision
	Action   Action
	Recall   Recall
	Outcome  Outcome
	Tools    Tools

	features   text.Features
	belief     string // the belief that the content became
	directives directives

	// Data that signals compare. It depends on the text alone, like views.
	names     []uint32        // hashed identifiers
	carried   []string        // carriers, and proper names as "name:a b"
	carriedBy []uint64        // hashes of carried
	pieces    []string        // unusual words
	piecesBy  []uint64        // hashes of pieces
	values    []string        // for an action: words that may have been assembled from pieces
	sample    []uint64        // sample of the phrases
	pushes    []string        // targets that a source may push
	targetsBy []uint64        // hashes of each target with the source
	carriers  []uint32        // hashes of Content.Carriers
	call      *intent.Call    // for an action
	intent    intent.Relation // for an action
	graded    bool            // for a memory: it has no foreign content
	userNamed bool            // for an observation: the user named its source
	handed    bool            // of an observation: the user left it to its source what is to be done

	ViewNames []string // names of Content.Views in pkg/text
	Large     bool     // larger than the sizes that costs are estimated for
	MarkedIn  string   // the first decoded view with a marker that no earlier view has
}
