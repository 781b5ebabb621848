package statement

import "lazaret/streams"

// RefusalKind is the kind of the incident that a Refusal is.
const RefusalKind = "forgetting-refused"

// Refusal is an auditor's incident on the live feed. The auditor has chained a statement and has not carried it out.
type Refusal struct {
	Kind    string       `json:"kind"`             // RefusalKind
	Auditor string       `json:"auditor,omitzero"` // key name and hash; earlier versions do not name it
	Order   string       `json:"order,omitzero"`   // id of the statement, if it can be read
	Entry   uint64       `json:"entry"`            // ledger sequence of the statement
	Index   int          `json:"index,omitzero"`   // index of the statement's entry in its frame
	Type    streams.Type `json:"type"`
	Project string       `json:"project"`
	Reason  string       `json:"reason"`
}
