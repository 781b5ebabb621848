package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"time"
	"unicode"

	"cel.dev/cel-go/common/types"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// Store is where signals are kept: a part of the caller's fold, one for each
// partition. *stage.State is one.
type Store interface {
	Get(key []byte) (value []byte, ok bool, err error)
	Set(key, value []byte) error
}

const trueVal = types.True

// The bounds of signals. Whatever falls out of one is the oldest.
const (
	writeWindow   = time.Minute
	maxWrites     = 512 // times kept of one agent
	sequenceSteps = 40  // steps kept of one session
	maxInstructed = 16  // marked observations kept of one session
	maxWords      = 400 // words kept of one of them
	maxValues     = 64  // carriers kept of one of them
)

// The keys of signals, by their first byte.
const (
	keyWrites       = 'w'
	keySequence     = 'q'
	keyInstructions = 'i'
	keyFolded       = 'f'
)

func key(space byte, parts ...string) []byte {
	return append([]byte{space}, strings.Join(parts, "\x00")...)
}

func keepsSignals(t streams.Type) bool {
	switch t {
	case streams.TypeObservation, streams.TypeAction, streams.TypeMemory:
		return true
	}
	return false
}

func load(st Store, k []byte, v any) error {
	b, ok, err := st.Get(k)
	if err != nil || !ok {
		return err
	}
	return streams.Unmarshal(b, v)
}

func save(st Store, k []byte, v any) error {
	b, err := streams.Marshal(v)
	if err != nil {
		return err
	}
	return st.Set(k, b)
}

// observe folds an input into the signals, and gives it those that its rules
// read. State is kept whether a rule reads it or not, so that a rule that is
// switched on finds it; what a rule set change adds starts empty.
func observe(st Store, in *Input, w wants) error {
	switch in.Event.Kind {
	case "observation":
		if err := noteInstruction(st, in); err != nil {
			return err
		}
		if in.Event.External && in.Event.Tool != "" {
			_, err := noteStep(st, in, []string{"read"})
			return err
		}
	case "action":
		if w&wantServes != 0 {
			if err := serves(st, in); err != nil {
				return err
			}
		}
		seq, err := noteStep(st, in, in.Action.Effects)
		in.Signal.Sequence = seq
		return err
	case "memory":
		return countWrite(st, in)
	}
	return nil
}

// countWrite keeps the times of an agent's memory writes.
func countWrite(st Store, in *Input) error {
	k := key(keyWrites, in.Event.Project, in.Event.Agent)
	b, _, err := st.Get(k)
	if err != nil {
		return err
	}
	now := in.Event.Time.UnixNano()
	var times []byte
	for ; len(b) >= 8; b = b[8:] {
		if t := int64(binary.BigEndian.Uint64(b)); now-t < int64(writeWindow) {
			times = binary.BigEndian.AppendUint64(times, uint64(t))
		}
	}
	times = binary.BigEndian.AppendUint64(times, uint64(now))
	if over := len(times) - 8*maxWrites; over > 0 {
		times = times[over:]
	}
	in.Signal.Writes1m = int64(len(times) / 8)
	return st.Set(k, times)
}

// step is one step of a session.
type step struct {
	Event   string   `json:"e"`
	Effects []string `json:"f"`
}

// noteStep adds a step to the session's window. If it writes, and the window
// holds a read with an egress after it, it returns those three events.
func noteStep(st Store, in *Input, effects []string) ([]string, error) {
	if in.Event.Session == "" || len(effects) == 0 {
		return nil, nil
	}
	k := key(keySequence, in.Event.Project, in.Event.Agent, in.Event.Session)
	var steps []step
	if err := load(st, k, &steps); err != nil {
		return nil, err
	}
	var found []string
	if slices.Contains(effects, "write") {
		found = subsequence(steps, "read", "egress")
		if found != nil {
			found = append(found, in.Event.ID)
		}
	}
	steps = append(steps, step{in.Event.ID, effects})
	if len(steps) > sequenceSteps {
		steps = steps[len(steps)-sequenceSteps:]
	}
	return found, save(st, k, steps)
}

// subsequence finds effects in order, each in a step of its own.
func subsequence(steps []step, effects ...string) []string {
	var found []string
	for _, s := range steps {
		if len(found) < len(effects) && slices.Contains(s.Effects, effects[len(found)]) {
			found = append(found, s.Event)
		}
	}
	if len(found) < len(effects) {
		return nil
	}
	return found
}

// instruction is what is kept of a marked observation.
type instruction struct {
	Event  string   `json:"e"`
	Words  []string `json:"w"` // sorted
	Values []string `json:"v"` // carriers, kind:value
	Text   string   `json:"t"` // normalised, clipped
}

// instructionText is how much of a marked observation is kept, in bytes.
const instructionText = 4 << 10

// noteInstruction keeps external content that carries an instruction.
func noteInstruction(st Store, in *Input) error {
	if !in.Event.External || len(in.Content.Markers) == 0 {
		return nil
	}
	words := make(map[string]bool)
	for _, v := range in.Content.Views {
		for _, w := range strings.FieldsFunc(v, notWord) {
			if len(w) > 1 && len(words) < maxWords {
				words[stem(w)] = true
			}
		}
	}
	ins := instruction{Event: in.Event.ID, Values: in.Content.Carriers[:min(len(in.Content.Carriers), maxValues)]}
	for w := range words {
		ins.Words = append(ins.Words, w)
	}
	slices.Sort(ins.Words)
	ins.Text = streams.Clip(strings.Join(in.Content.Views, "\n"), instructionText)
	k := key(keyInstructions, in.Event.Project, in.Event.Agent, in.Event.Session)
	var kept []instruction
	if err := load(st, k, &kept); err != nil {
		return err
	}
	kept = append(kept, ins)
	if len(kept) > maxInstructed {
		kept = kept[len(kept)-maxInstructed:]
	}
	return save(st, k, kept)
}

func notWord(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }

// stem folds the commonest English endings, so that "emails" meets "email".
func stem(w string) string {
	for _, end := range []string{"ing", "ed", "es", "s"} {
		if s, ok := strings.CutSuffix(w, end); ok && len(s) >= 3 {
			return s
		}
	}
	return strings.TrimSuffix(w, "e")
}

// serves finds the marked observations whose instruction the action would
// carry out: dependence by evidence, not by everything that was seen.
func serves(st Store, in *Input) error {
	var kept []instruction
	k := key(keyInstructions, in.Event.Project, in.Event.Agent, in.Event.Session)
	if err := load(st, k, &kept); err != nil || len(kept) == 0 {
		return err
	}
	tool := toolWords(in.Action.Tool)
	for i := len(kept) - 1; i >= 0; i-- { // the latest first
		if s := kept[i].servedBy(in, tool); s != nil {
			in.Signal.Serves = append(in.Signal.Serves, s)
		}
	}
	return nil
}

func (ins *instruction) servedBy(in *Input, tool []string) *Served {
	for _, c := range in.Content.Carriers {
		if slices.Contains(ins.Values, c) {
			return &Served{ins.Event, "carrier", c}
		}
	}
	hits := 0
	for _, w := range tool {
		if _, ok := slices.BinarySearch(ins.Words, w); ok {
			hits++
		}
	}
	// Half of a tool's name, and no less than two words of it, unless it has
	// one only.
	if len(tool) > 0 && 2*hits >= len(tool) && (hits >= 2 || len(tool) == 1) {
		return &Served{ins.Event, "tool", in.Action.Tool}
	}
	for _, line := range strings.Split(in.Action.Text, "\n") {
		if v := text.Normalize(line); len(v) >= minValue && len(strings.Fields(v)) >= 2 && strings.Contains(ins.Text, v) {
			return &Served{ins.Event, "value", streams.Clip(line, 120)}
		}
	}
	return nil
}

// minValue is the length from which an argument is distinctive, in bytes.
const minValue = 12

// toolWords cuts a tool's name into stems: sendEmail, send_email and
// mail.sendEmail all hold send and email.
func toolWords(name string) []string {
	var words []string
	var b strings.Builder
	flush := func() {
		if b.Len() > 1 {
			words = append(words, stem(strings.ToLower(b.String())))
		}
		b.Reset()
	}
	prev := rune(0)
	for _, r := range name {
		switch {
		case notWord(r):
			flush()
			prev = 0
			continue
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			flush()
		}
		b.WriteRune(r)
		prev = r
	}
	flush()
	return words
}

// fold counts an alert with those of the same rule on the same subject, and
// reports whether it is to be published: repeated ones at powers of two, so
// that their number grows with the logarithm of their cause.
func fold(st Store, a *streams.Alert) (publish bool, err error) {
	sum := sha256.Sum256([]byte(a.Project + "\x00" + a.Rule + "\x00" + a.Subject.Kind + "\x00" + a.Subject.ID))
	k := append([]byte{keyFolded}, sum[:16]...)
	b, _, err := st.Get(k)
	if err != nil {
		return false, err
	}
	n := uint64(1)
	if len(b) == 8 {
		n = binary.BigEndian.Uint64(b) + 1
	}
	a.Count = n
	return bits.OnesCount64(n) == 1, st.Set(k, binary.BigEndian.AppendUint64(nil, n))
}
