package rules

import (
	"cmp"
	"time"

	"lazaret/streams"
)

// signals is the state of one project while one input is judged.
type signals struct {
	t   *tables
	in  *Input
	act Activation // of declared signals
	// done holds the sequences that this input completes.
	done map[string][]string
	// swaps are the sequences that it goes into, see noteSwaps.
	swaps enc

	// Of the input's own head: whose content it is, the cluster that it founds,
	// and the head's ref once there is one.
	origin string
	extern bool
	noted  bool
	founds uint64
	ownRef uint32

	clusterRec *cluster
	metBy      []met
	lastHead   *headRec
	lastRef    uint32
	servedBy   []*Served
	servedOn   []streams.Rest // the contents behind servedBy
	servedRead bool
	pushed     []*Push
	pushesRead bool
	contents   []uint32 // scratch
	usedBy     []used
	counted    [4]counted // what declared signals made of this input
	counts     int
	keyRec     keyRec
	keyRead    bool
	bits       float64 // the content's entropy, when measured
	measured   bool
}

func (s *signals) since(t time.Time) float64 {
	if t.IsZero() {
		return -1
	}
	return s.in.Event.Time.Sub(t).Seconds()
}

// begin says whose content the input is.
func (s *signals) begin() {
	in := s.in
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
func (s *signals) hasContent() bool {
	kind := s.in.Event.Kind
	return (kind == "observation" || kind == "memory") && s.in.Content.Text != ""
}

// hasForeignContent reports whether it brings content from outside.
func (s *signals) hasForeignContent() bool { return s.hasContent() && s.extern }

// note folds the input into the state. A group of sentinels keeps all state,
// whether a rule reads it or not, so that a rule that is switched on later finds
// it; only says which parts are kept.
func (s *signals) note(only notes) {
	s.begin()
	for i := range folds {
		if f := &folds[i]; only&f.bit != 0 {
			f.note(s)
		}
	}
}
