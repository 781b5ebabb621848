package signals

import (
	"cmp"
	"time"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// State gives access to the state of one project while one input is evaluated.
type State struct {
	t   *index.Tables
	In  *Input
	act Activation // for declared signals
	// done has, by name, the events of each sequence that this input completes.
	done map[string][]string
	// swaps has each sequence that this input changes: its key, its old value and its new value. See NoteSequences.
	swaps index.Encoder

	// origin is the kind of origin of the input, and extern says whether it is external. founds is the cluster of which
	// the input is the first member. ownRef is the ref of the input's own origin, if noted is set.
	origin string
	extern bool
	noted  bool
	founds uint64
	ownRef uint32

	memberBy   [3]uint32 // see member
	memberRead bool
	clusterRec cluster
	metBy      []met
	metRead    bool
	ownRec     *origin // the input's own origin as a record; nil until it is first used
	lastOrigin *origin // of lastRef
	lastRef    uint32
	servedBy   []*Served
	servedOn   []streams.Rest // the contents of servedBy
	servedRead bool
	writes     [][]uint32 // sentences that the action writes into a file; see writesOut
	writesRead bool
	pushed     []*Push
	pushesRead bool
	contents   []uint32 // scratch
	usedBy     []used
	counted    [4]counted // new values of the declared signals that this input has changed
	counts     int
	keyRec     keyRec
	keyRead    bool
	bits       float64 // the content's entropy, if it was computed
	measured   bool
}

func (s *State) since(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return s.In.Event.Time.Sub(t).Seconds()
}

// begin sets the origin of the input.
func (s *State) begin() {
	in := s.In
	switch in.Event.Kind {
	case "action":
		s.origin = "agent"
		return
	case "memory":
		s.extern = in.Memory.External
	default:
		s.extern = in.Event.External
	}
	s.origin = in.Event.Origin
	if s.extern {
		s.origin = cmp.Or(in.Memory.Inherited, "external")
	}
}

// hasContent reports whether the input brings content into the project: it is an observation or a memory, and has text.
func (s *State) hasContent() bool {
	kind := s.In.Event.Kind
	return (kind == "observation" || kind == "memory") && s.In.Content.Text != ""
}

// hasExternalContent reports whether the input brings external content into the project.
func (s *State) hasExternalContent() bool { return s.hasContent() && s.extern }

// Note updates the state with the input. only says which parts to update. A sentinel group updates all parts, even
// those that no rule reads. So rules that are activated later find the state complete.
func (s *State) Note(only Parts) {
	s.begin()
	for i := range folds {
		if f := &folds[i]; only&f.bit != 0 {
			f.note(s)
		}
	}
}

// NewState returns the state of a project for one input.
func NewState(t *index.Tables, in *Input) State { return State{t: t, In: in} }

// Reset is like NewState, but reuses memory.
func (s *State) Reset(t *index.Tables, in *Input) {
	clear(s.metBy)
	clear(s.usedBy)
	*s = State{
		t:        t,
		In:       in,
		swaps:    s.swaps[:0],
		metBy:    s.metBy[:0],
		contents: s.contents[:0],
		usedBy:   s.usedBy[:0],
	}
}

// SetActivation sets the activation with which the expressions of declared signals are evaluated.
func (s *State) SetActivation(act Activation) { s.act = act }
