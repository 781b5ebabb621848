package ingest

import (
	"fmt"

	"lazaret/internal/stage"
	"lazaret/streams"
)

func init() {
	writes[streams.ResolutionEntry](streams.TypeResolution, nil)
}

// resolution records a signed resolution of a hold. The arbiter decides whether to accept it. A forged one is recorded
// too, as evidence.
func (f *Fold) resolution(st *stage.State, m *stage.Message, c *streams.Control,
	head streams.EntryHead) (*stage.Admission, error) {
	if err := addressed(m, c, c.Hold); err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	e := &streams.ResolutionEntry{EntryHead: head, Hold: c.Hold, Note: c.Note}
	if len(c.Note) > streams.MaxResolution {
		e.Note, e.Size = streams.Clip(c.Note, streams.MaxResolution), len(c.Note)
	}
	return admission(streams.TypeResolution, c.Project, e)
}

// addressed returns an error unless a command's project and id are valid, and the command came in the project's
// partition. They must be valid because they become parts of keys and of live subjects. hold is the last part of the
// subject of the answer: the hold that the command is about or, for a command about a whole project, its kind.
func addressed(m *stage.Message, c *streams.Control, hold string) error {
	if _, err := streams.ResolveSubject(c.Project, hold); err != nil {
		return err
	}
	if err := streams.CheckID("id", c.ID); err != nil {
		return err
	}
	if p := streams.PartitionOf(c.Project); p != m.Address.Partition {
		return fmt.Errorf("the command came in another partition: project %s is in partition %d", c.Project, p)
	}
	return nil
}
