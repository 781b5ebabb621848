package ingest

import (
	"fmt"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// resolution records a signed resolution of a hold, whatever it says: whether it
// is obeyed is the arbiter's to say, in the ledger, where a forged one is
// evidence too.
func (f *Fold) resolution(st *stage.State, m *stage.Message, c *streams.Control, head streams.EntryHead) (*stage.Admission, error) {
	invalid := func(err error) (*stage.Admission, error) {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	// Not only the subject of a reply: the ids become keys and live subjects.
	if _, err := streams.ResolveSubject(c.Project, c.Hold); err != nil {
		return invalid(err)
	}
	if err := streams.CheckID("id", c.ID); err != nil {
		return invalid(err)
	}
	if p := streams.PartitionOf(c.Project); p != m.Address.Partition {
		return invalid(fmt.Errorf("project %s is in partition %d", c.Project, p))
	}
	e := &streams.ResolutionEntry{EntryHead: head, Hold: c.Hold, Note: c.Note}
	if len(c.Note) > streams.MaxResolution {
		e.Note, e.Size = streams.Clip(c.Note, streams.MaxResolution), len(c.Note)
	}
	return admission(streams.TypeResolution, c.Project, e)
}
