package ingest

import (
	"lazaret/internal/stage"
	"lazaret/streams"
)

func init() {
	writes[streams.SilenceEntry](streams.TypeSilence, nil)
}

// silence makes the entry of an operator's command to silence alerts, or to end such a silence. It changes no state.
func (f *Fold) silence(st *stage.State, m *stage.Message, c *streams.Control, head streams.EntryHead) (*stage.Admission,
	error) {
	err := addressed(m, c, "silence")
	if err == nil {
		err = c.Silence.Check(head.Time)
	}
	if err != nil {
		return f.reject(st, m, &streams.RejectError{Code: streams.CodeInvalid, Reason: err.Error()})
	}
	return admission(streams.TypeSilence, c.Project, &streams.SilenceEntry{EntryHead: head, Silence: *c.Silence})
}
