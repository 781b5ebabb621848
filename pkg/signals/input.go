package signals

import (
	"time"

	"lazaret/pkg/intent"
	"lazaret/pkg/text"
)

// The types of the values that expressions use. In an expression, a field has the name in its cel tag. If an entry
// lacks a field, the field is zero, so that reading it never fails.

// Event has the fields that all entries have in common.
type Event struct {
	Kind      string    `cel:"kind" doc:"the type of the entry, as in the table of kinds in docs/protocol.md: observation, action, …; belief if a belief is judged again"`
	ID        string    `cel:"id" doc:"the client's id of the event"`
	Project   string    `cel:"project"`
	Agent     string    `cel:"agent"`
	Session   string    `cel:"session"`
	Origin    string    `cel:"origin" doc:"origin of the content, according to the sender's credential"`
	External  bool      `cel:"external" doc:"the origin is neither the user nor the operator nor the agent"`
	Source    string    `cel:"source" doc:"source of the content, as stated by the host"`
	Tool      string    `cel:"tool"`
	Time      time.Time `cel:"time" doc:"ledger time; in a synthetic project, such as the replay of a recorded session, the time that the event states"`
	Synthetic bool      `cel:"synthetic"`
	Size      int64     `cel:"size" doc:"size of the content in bytes"`
}

// Content is a text that was read, written as a memory, or given as an answer.
type Content struct {
	Text      string   `cel:"text" doc:"verbatim"`
	Views     []string `cel:"views" doc:"the normalized text and its decoded forms, in lower case"`
	Markers   []string `cel:"markers" doc:"classes of instruction in the views: override, role, address, request, exfiltrate, secrecy, tool, persist, plea, answer, obey, hidden"`
	HasHidden bool     `cel:"has_hidden" doc:"the text has zero-width, bidi or tag characters"`
	Score     int64    `cel:"command_score" doc:"how much the text reads like an order to its reader, 0 to 100, by a linear text model; docs/detection.md has the false positives of each threshold"`
	Commands  []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Carriers  []string `cel:"carriers" doc:"addresses, hosts, accounts, paths and the like, as kind:value"`
	Kinds     []string `cel:"kinds" doc:"the kinds of its carriers: email, host, url, path, secret and the like"`
}

// Belief is the state of a belief at the time when an entry cited it.
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
	Quality     string  `cel:"quality" doc:"strongest class of evidence that supports the belief"`
	Origin      string  `cel:"origin" doc:"weakest origin among the belief's sources"`
	Confidence  float64 `cel:"confidence" doc:"0.10 to 0.95"`
	Source      string  `cel:"source"`
	Observation string  `cel:"observation" doc:"event that introduced the belief"`

	agent string
}

// Agent returns the name of the agent that sent the observation from which the belief was made.
func (b *Belief) Agent() string { return b.agent }

// Memory is a memory write.
type Memory struct {
	Key       string   `cel:"key"`
	Category  string   `cel:"category"`
	Channel   string   `cel:"channel" doc:"write, compaction, skill or import"`
	Origin    string   `cel:"origin" doc:"origin of the writer"`
	Inherited string   `cel:"inherited" doc:"weakest origin among the memory's sources, if it is weaker than the writer's"`
	External  bool     `cel:"external" doc:"the writer or a source of the memory is external"`
	KeyHolder string   `cel:"key_holder" doc:"origin of the current value of the key"`
	Parents   []string `cel:"parents"`
	Repeats   int64    `cel:"repeats" doc:"how often the same content was seen before in the project"`
	Age       float64  `cel:"age" doc:"seconds since the same content was first seen; -1 if never"`
	Asked     bool     `cel:"asked" doc:"the key names a file, and the user asked in the session for a change of it by its name"`
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
	Level         int64          `cel:"level" doc:"the action's level under the policy, 0 to 5"`
	Matched       string         `cel:"matched" doc:"policy entry that determined the level"`
	Effects       []string       `cel:"effects" doc:"read, write, egress, delete, pay, publish, exec, secret"`
	Acts          []string       `cel:"acts" doc:"what the tool does, according to its name and declared effects: send, delete, pay, grant, export and the like"`
	Args          map[string]any `cel:"args"`
	Text          string         `cel:"text" doc:"the strings in the arguments, one per line"`
	Confidence    float64        `cel:"confidence" doc:"the agent's stated confidence; -1 if not stated"`
	Decision      string         `cel:"decision"`
	Beliefs       []*Belief      `cel:"beliefs" doc:"beliefs that the action or its decision cites"`
	Asked         bool           `cel:"asked" doc:"the user's words in the session ask for what the tool does"`
	Deed          bool           `cel:"deed" doc:"the user's words in the session ask for what the tool does, by any medium and with any thing"`
	Strange       string         `cel:"strange" doc:"path of an argument that names a single thing, if the user's words name neither the tool's act nor any argument; else empty"`
	Ordinary      bool           `cel:"ordinary" doc:"the user wants something done, and the action only builds or tests, or writes files that neither agents nor programs follow by themselves"`
	Other         string         `cel:"other" doc:"path of an argument that names a single thing, if the user asked for such an act on other things only; else empty"`
	SecretFile    string         `cel:"secret_file" doc:"path of an argument that names a file with secrets which the action sends, if the user did not name this file; else empty"`
	SendsByLine   bool           `cel:"sends_by_line" doc:"an argument is a command line that may send something to another machine"`
	Grant         string         `cel:"grant" doc:"path of an argument that may give access to others: it has a signed URL, and the action does more than send it to the URL's own host; or it has an access key ID of AWS outside of a signed URL of AWS; else empty"`
	Password      string         `cel:"password" doc:"path of an argument that is a URL with a password in it, if the arguments have no other secret and name no receiver; else empty"`
	Repeated      bool           `cel:"repeated" doc:"the agent proposed the same call before, after similar words of the user, and no rule had a finding on it"`
	Unseen        bool           `cel:"unseen" doc:"the session contains an observation that was rejected and not judged"`
	BlastRadius   string         `cel:"blast_radius"`
	Reversibility string         `cel:"reversibility"`
}

// Recall is a retrieval from memory.
type Recall struct {
	Query    string      `cel:"query"`
	Key      string      `cel:"key"`
	Purpose  string      `cel:"purpose"`
	Admitted int64       `cel:"admitted" doc:"number of items that the context policy admits"`
	Items    []*Recalled `cel:"items" doc:"items that were found and not refused"`
}

// Recalled is one belief that a recall found.
type Recalled struct {
	ID         string   `cel:"id" doc:"id of the belief"`
	Key        string   `cel:"key"`
	Similarity float64  `cel:"similarity" doc:"the store's score, 0 to 1; -1 if it gave none"`
	Overlap    float64  `cel:"overlap" doc:"share of the query's words that the content contains, 0 to 1"`
	Origin     string   `cel:"origin"`
	External   bool     `cel:"external"`
	Quality    string   `cel:"quality"`
	Source     string   `cel:"source"`
	Markers    []string `cel:"markers" doc:"classes of instruction in it, as in content.markers"`
	Hidden     bool     `cel:"hidden" doc:"the text has zero-width, bidi or tag characters"`
	Score      int64    `cel:"command_score" doc:"how much the text reads like an order, as content.command_score"`
	Commands   []string `cel:"command_words" doc:"up to three words that weigh most in command_score"`
	Kinds      []string `cel:"kinds" doc:"the kinds of its carriers"`
}

// Outcome is the result of an action, or the agent's answer.
type Outcome struct {
	Action    string  `cel:"action" doc:"id of the action"`
	Status    string  `cel:"status"`
	Kind      string  `cel:"kind" doc:"answer if this is an agent's answer, else empty"`
	Grounding float64 `cel:"grounding" doc:"how well the named sources support an answer, 0 to 1; -1 if it names none"`
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
	Hidden      bool     `cel:"hidden" doc:"the description or schema has zero-width, bidi or tag characters"`
	Markers     []string `cel:"markers" doc:"classes of instruction in the description or schema"`
	Drift       bool     `cel:"drift" doc:"the description or schema differs from the server's first catalogue, or from the last one that a person accepted"`
	Shadows     string   `cel:"shadows" doc:"server that offered a tool with this name before; empty if none"`

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

	reading
	belief    string          // the belief that the content became
	words     []uint32        // for a memory: hashes of its words and carriers, see memoryWords
	values    []string        // for an action: words that may have been assembled from pieces
	pushes    []string        // targets that signal.pushes counts by source
	targetsBy []uint64        // hashes of each target with the source
	call      *intent.Call    // for an action
	short     []short         // the arguments that are no prose; computed when they are first used
	intent    intent.Relation // for an action
	graded    bool            // for a memory: it has no external content
	userNamed bool            // for an observation: the user named its source
	handed    bool            // for an observation: the user asked the agent to do what its source says

	Large bool // set if the input is larger than the sizes on which cost estimates are based
}

// reading is the part of an input that depends only on its text, on its kind of event, and on whether its origin is
// external. Once it is complete, it must not be modified.
type reading struct {
	features   text.Features
	directives directives

	// Data that signals compare.
	names     []uint32 // hashed identifiers
	carried   []string // carriers, and proper names as "name:a b"
	carriedBy []uint64 // hashes of carried
	pieces    []string // unusual words
	piecesBy  []uint64 // hashes of pieces
	sample    []uint64 // sample of the phrases
	carriers  []uint32 // hashes of Content.Carriers

	ViewNames []string // names of Content.Views in pkg/text
	MarkedIn  string   // name of the first decoded view with a marker that the views before it do not have
}
