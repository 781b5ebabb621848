package ingest

import (
	"fmt"

	"lazaret/internal/stage"
	"lazaret/streams"
)

func init() {
	writes[streams.ResolutionEntry](streams.TypeResolution, nil)
}

// resolution records a signed resolution of a hold. The arbiter decides whether to accept it. A
// forged one is recorded as evidence.
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

// addressed checks the project and the id of a command, because they become keys and parts of live
// subjects, and that the command came in the project's partition. hold is the last part of the
// reply's subject: the hold that the command is about, or the kind of a command about a whole
// project.
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
