package signals

import (
	"cmp"
	"time"

	"lazaret/pkg/signals/index"
	"lazaret/streams"
)

// State is the state of one project during the evaluation of one input.
type State struct {
	t   *index.Tables
	In  *Input
	act Activation // for declared signals
	// done has the sequences that this input completes.
	done map[string][]string
	// swaps has the key, the old and the new value of each sequence that this input changes, see NoteSequences.
	swaps index.Encoder

	// The input's own origin, the cluster that it founds, and the ref of its record if it has one.
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
	ownRec     *origin // of this input; nil until it is first used
	lastOrigin *origin // of lastRef
	lastRef    uint32
	servedBy   []*Served
	servedOn   []streams.Rest // the contents of servedBy
	servedRead bool
	writes     [][]uint32 // the sentences of a file that the action writes; see writesOut
	writesRead bool
	pushed     []*Push
	pushesRead bool
	contents   []uint32 // scratch
	usedBy     []used
	counted    [4]counted // values of declared signals that this input changed
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

// hasContent reports whether the input brings content into the project.
func (s *State) hasContent() bool {
	kind := s.In.Event.Kind
	return (kind == "observation" || kind == "memory") && s.In.Content.Text != ""
}

// hasExternalContent reports whether the input brings external content.
func (s *State) hasExternalContent() bool { return s.hasContent() && s.extern }

// Note updates the state with the input. only selects the parts. A sentinel group updates all
// parts, even if no rule reads them, so that rules that are activated later have the state.
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

// SetActivation sets the activation for the expressions of declared signals.
func (s *State) SetActivation(act Activation) { s.act = act }
