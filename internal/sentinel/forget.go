package sentinel

import (
	"lazaret/internal/stage"
	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// forget drops all signals of a project: carriers, phrases, clusters, counts and everything else
// that was computed from its content.
func (f *Fold) forget(st *stage.State, e *streams.Entry) (*stage.Output, error) {
	b := new(streams.CustodyEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil {
		f.log.Error("an order to forget a project cannot be read and is ignored", "seq", e.Seq, "err", err)
		return nil, nil
	}
	// A key of the signals' tables has a table and a generation before the project.
	err := st.DropProject(e.Project, []byte{'s'}, func(k, _ []byte) (bool, error) {
		return index.KeyOf(k, e.Project), nil
	})
	if err != nil {
		return nil, err
	}
	return stage.NewOutput(streams.TypeDropped, e.Project,
		&streams.DroppedEntry{EntryHead: streams.EntryHead{Time: b.Time}, Statement: b.ID})
}

// erased answers a statement about one data subject. The stage runtime has already folded the
// partition again without the listed entries.
func erased(e *streams.Entry) (*stage.Output, error) {
	b := new(streams.CustodyEntry)
	if err := streams.Unmarshal(e.Body, b); err != nil || streams.Erasure(e.Body) == nil {
		return nil, nil
	}
	return stage.NewOutput(streams.TypeDropped, e.Project,
		&streams.DroppedEntry{EntryHead: streams.EntryHead{Time: b.Time}, Statement: b.ID})
}
