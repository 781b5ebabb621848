package ingest

import (
	"lazaret/internal/stage"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

func init() {
	admits(streams.KindTools, (*Fold).catalogue)
	writesIn(streams.TypeTools, (*Fold).applyTools)
}

// catalogue makes the ledger entry of a tool server's catalogue (its list of tools). The entry repeats the event
// without changes.
func (f *Fold) catalogue(_ *stage.State, m *stage.Message, head streams.EntryHead,
	ev *streams.Tools) (*stage.Admission, error) {
	return admission(streams.TypeTools, m.Address.Project, &streams.ToolsEntry{EntryHead: head, Server: ev.Server,
		Instructions: ev.Instructions, Tools: ev.Tools})
}

// applyTools folds the entry of a catalogue. It stores the texts that the catalogue shows to its agent, and the
// annotations that raise a tool's level. Annotations add up over all catalogues of the project and are never removed.
// So the level does not fall if a server later calls its tool harmless, or if another server has a tool of the same
// name.
func (f *Fold) applyTools(st *stage.State, project string, e *streams.ToolsEntry) error {
	if err := f.noteOffer(st, project, e); err != nil {
		return err
	}
	for _, t := range e.Tools {
		h := policy.ReadHints(t.Annotations)
		names := policy.ToolNames(t.Name)
		if h == 0 || len(names) == 0 {
			continue
		}
		was, err := hints(st, project, names[0])
		if err != nil {
			return err
		}
		if was|h == was {
			continue
		}
		if err := st.Set(stage.Key(keyHints, project, names[0]), []byte{byte(was | h)}); err != nil {
			return err
		}
	}
	return nil
}

// annotations returns the stored annotations that raise the level of a called tool, as a JSON object. It returns nil if
// there are none.
func (f *Fold) annotations(st *stage.State, project, tool string) ([]byte, error) {
	var all policy.Hints
	for _, name := range policy.ToolNames(tool) {
		h, err := hints(st, project, name)
		if err != nil {
			return nil, err
		}
		all |= h
	}
	return all.Annotations(), nil
}

func hints(st *stage.State, project, name string) (policy.Hints, error) {
	v, ok, err := st.Get(stage.Key(keyHints, project, name))
	if err != nil || !ok || len(v) != 1 {
		return 0, err
	}
	return policy.Hints(v[0]), nil
}
