package ingest

import (
	"encoding/binary"
	"slices"

	"lazaret/internal/stage"
	"lazaret/pkg/beliefs"
	"lazaret/pkg/intent"
	"lazaret/pkg/policy"
	"lazaret/streams"
)

// userWords returns hashes of the words that the user of a session said.
func (f *Fold) userWords(st *stage.State, project, agent, session string) ([]uint32, error) {
	said, err := f.userSaid(st, project, agent, session)
	if err != nil {
		return nil, err
	}
	return said.Words, nil
}

// userSaid returns what the user of a session said, as package intent uses it.
func (f *Fold) userSaid(st *stage.State, project, agent, session string) (*intent.Said, error) {
	said := new(intent.Said)
	if session == "" {
		return said, nil
	}
	v, _, err := st.Get(stage.Key(keyIntent, project, agent, session, ""))
	if err != nil {
		return nil, err
	}
	said.Words = readWords(v)
	if v, _, err = st.Get(requestsKey(project, agent, session)); err != nil {
		return nil, err
	}
	said.Requests = intent.ReadRequests(v)
	if v, _, err = st.Get(knownKey(project, agent, session)); err != nil {
		return nil, err
	}
	said.Known = readWords(v)
	v, _, err = st.Get(sourcesKey(project, agent, session))
	said.Sources = readWords(v)
	return said, err
}

// knownKey is the key of the words that the agent used in calls before the session was shown anything foreign.
func knownKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "known")
}

func readWords(b []byte) []uint32 {
	words := make([]uint32, len(b)/4)
	for i := range words {
		words[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	return words
}

func wordBytes(words []uint32) []byte {
	var b []byte
	for _, h := range words {
		b = binary.BigEndian.AppendUint32(b, h)
	}
	return b
}

// sourcesKey is the key of Said.Sources: words from the content of the sources that the user named.
func sourcesKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "sources")
}

// noteSource stores the words of an observation whose source the user named.
func (f *Fold) noteSource(st *stage.State, project string, e *streams.ObservationEntry) error {
	if !e.UserNamed && !e.Handed || e.Session == "" {
		return nil
	}
	if err := noteNamed(st, project, e); err != nil {
		return err
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return err
	}
	for _, b := range e.Blocks {
		said.Read(cut(b.Text, maxSaidText), b.Features.Carriers, e.Handed)
	}
	if len(said.Sources) == 0 {
		return nil
	}
	return st.Set(sourcesKey(project, e.Agent, e.Session), wordBytes(said.Sources))
}

func requestsKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "requests")
}

// noteIntent adds the words of the user's message to those of its session. Text that the user pasted is left out.
func (f *Fold) noteIntent(st *stage.State, project string, e *streams.ObservationEntry) error {
	if e.Origin != beliefs.OriginUser || e.Session == "" {
		return nil
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return err
	}
	for i, b := range e.Blocks {
		pasted := slices.ContainsFunc(e.Claims, func(c streams.ClaimEntry) bool {
			return c.Block == i && c.Belief.Origin.External()
		})
		if b.Text != "" && !pasted {
			said.Add(cut(b.Text, maxSaidText))
		}
	}
	if err := st.Set(stage.Key(keyIntent, project, e.Agent, e.Session, ""), wordBytes(said.Words)); err != nil {
		return err
	}
	return st.Set(requestsKey(project, e.Agent, e.Session), said.AppendRequests(nil))
}

// relate sets e.Intent: how a proposed action relates to the user's words.
func (f *Fold) relate(st *stage.State, project string, e *streams.ActionEntry) error {
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil || len(said.Words) == 0 {
		return err
	}
	args := arguments(e.Args)
	if policy.ReadsMessages(e.Tool, args, e.Loads) {
		if said.Texts, err = f.saidTexts(st, project, e.Agent, e.Session); err != nil {
			return err
		}
	}
	e.Intent = policy.Relate(said, e.Tool, args, e.Features.Carriers, e.Loads...)
	return nil
}

// noteCall stores what is needed when a call's result or verdict comes: the user's requests for which the call looks
// something up, and the call's flags (see userNamed). As long as the session was shown nothing foreign, it also stores
// the words that the agent used in the call.
func (f *Fold) noteCall(st *stage.State, project string, e *streams.ActionEntry) error {
	if e.Session == "" {
		return nil
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil || len(said.Words) == 0 {
		return err
	}
	shown, err := shownTo(st, project, &e.EntryHead)
	if err != nil {
		return err
	}
	args := arguments(e.Args)
	c := toolCall{ID: e.ID, Keys: said.Looks(e.Tool, args, shown.Foreign > 0)}
	if len(c.Keys) > 0 {
		if err := noteLook(st, project, e, c.Keys); err != nil {
			return err
		}
	}
	if said.Know(args); shown.Foreign == 0 && len(said.Known) > 0 && len(said.Requests) > 0 {
		if err := st.Set(knownKey(project, e.Agent, e.Session), wordBytes(said.Known)); err != nil {
			return err
		}
	}
	if said.Named("", args) {
		c.Flags |= callNamed
	}
	// As long as nothing foreign was shown, only the user's words can have led to the call. Then a call that opens
	// things of which the user speaks gets the flag too.
	if said.HandsOver(e.Tool, "", args) || shown.Foreign == 0 && said.Opens(args) {
		c.Flags |= callHanded
	}
	return addCall(st, callsKey(project, e.Agent, e.Session, e.Tool), c)
}

// toolCall is what is stored about a call until its result comes.
type toolCall struct {
	ID    string   `json:"id"`
	Keys  []uint32 `json:"keys,omitzero"` // the user's requests for which the call looks something up
	Flags byte     `json:"flags,omitzero"`
	// Over is set if a result of the tool was read after this call and before the next one. A later result that does
	// not name its call does not count for this call.
	Over bool `json:"over,omitzero"`
}

// Flags of a call. callNamed: the user named a value of the call. callHanded: the user left it to the call's result
// what to do, as in "do what the e-mail says".
const (
	callNamed byte = 1 << iota
	callHanded
)

// toolCalls are the last calls of one tool in a session.
type toolCalls struct {
	Calls []toolCall `json:"calls"`
	Read  bool       `json:"read,omitzero"` // a result of the tool was read after the last call
}

// maxToolCalls is the maximum number of stored calls of a tool in a session. The oldest is dropped.
const maxToolCalls = 16

func callsKey(project, agent, session, tool string) []byte {
	return stage.Key(keyIntent, project, agent, session, tool, "calls")
}

// addCall adds a call to the stored calls of its tool.
func addCall(st *stage.State, key []byte, c toolCall) error {
	var t toolCalls
	if _, err := st.Load(key, &t); err != nil {
		return err
	}
	if t.Read {
		for i := range t.Calls {
			t.Calls[i].Over = true
		}
	}
	t.Calls, t.Read = append(t.Calls, c), false
	t.Calls = t.Calls[max(0, len(t.Calls)-maxToolCalls):]
	return st.Put(key, &t)
}

// answered returns which of the user's requests a result may answer: those for which its call looked something up.
// flags are those of the call. If the result does not name its call, it counts for all calls since the tool's previous
// result: answered returns the requests of all of them, and the flags that all of them have. If the result names a call
// that may have been dropped, answered returns nothing. id is the call that the result names, or "".
func (t *toolCalls) answered(id string) (keys []uint32, flags byte) {
	all := t.Calls
	i := slices.IndexFunc(all, func(c toolCall) bool { return c.ID == id })
	switch {
	case i >= 0:
		all = all[i : i+1]
	case id != "" && len(all) == maxToolCalls:
		return nil, 0 // the call may have been dropped
	default:
		all = slices.DeleteFunc(slices.Clone(all), func(c toolCall) bool { return c.Over })
	}
	for i, c := range all {
		keys = append(keys, c.Keys...)
		if i == 0 {
			flags = c.Flags
		}
		flags &= c.Flags
	}
	return keys, flags
}

// noteFound stores the words of a result for the requests for which its call looked something up. The verdict on the
// call may still be missing. So the words count only once lookedUp marks the requests.
func (f *Fold) noteFound(st *stage.State, project string, e *streams.ObservationEntry) error {
	if e.Session == "" || !e.Origin.External() || e.Tool == "" {
		return nil
	}
	var t toolCalls
	key := callsKey(project, e.Agent, e.Session, e.Tool)
	if ok, err := st.Load(key, &t); err != nil || !ok {
		return err
	}
	if !t.Read {
		t.Read = true
		if err := st.Put(key, &t); err != nil {
			return err
		}
	}
	keys, _ := t.answered(e.Call)
	if len(keys) == 0 {
		return nil
	}
	said, err := f.userSaid(st, project, e.Agent, e.Session)
	if err != nil {
		return err
	}
	for _, b := range e.Blocks {
		said.Find(keys, cut(b.Text, maxFoundText))
	}
	return st.Set(requestsKey(project, e.Agent, e.Session), said.AppendRequests(nil))
}

// maxFoundText is the maximum length of a result that is compared with calls, in bytes.
const maxFoundText = 64 << 10

// look is a call that waits for its verdict, and that looks up something for requests of the user.
type look struct {
	ID   string   `json:"id"`
	Keys []uint32 `json:"keys"`
}

// maxLooks is the maximum number of calls (see look) that are stored for a session. The oldest is dropped.
const maxLooks = 16

func looksKey(project, agent, session string) []byte {
	return stage.Key(keyIntent, project, agent, session, "", "looks")
}

func noteLook(st *stage.State, project string, e *streams.ActionEntry, keys []uint32) error {
	key := looksKey(project, e.Agent, e.Session)
	var waiting []look
	if _, err := st.Load(key, &waiting); err != nil {
		return err
	}
	waiting = append(waiting, look{e.ID, keys})
	return st.Put(key, waiting[max(0, len(waiting)-maxLooks):])
}

// lookedUp marks the requests for which an allowed call looks something up. It ignores a call that was not allowed,
// because it was not executed.
func (f *Fold) lookedUp(st *stage.State, project string, v *streams.VerdictEntry) error {
	if v.Type != streams.TypeAction || v.Verdict != streams.Allow || v.Session == "" {
		return nil
	}
	key := looksKey(project, v.Agent, v.Session)
	var waiting []look
	if ok, err := st.Load(key, &waiting); err != nil || !ok {
		return err
	}
	i := slices.IndexFunc(waiting, func(l look) bool { return l.ID == v.ID })
	if i < 0 {
		return nil
	}
	said, err := f.userSaid(st, project, v.Agent, v.Session)
	if err != nil {
		return err
	}
	if said.Look(waiting[i].Keys) {
		if err := st.Set(requestsKey(project, v.Agent, v.Session), said.AppendRequests(nil)); err != nil {
			return err
		}
	}
	return st.Put(key, slices.Delete(waiting, i, i+1))
}

// userNamed reports whether the user named the source of an observation (named), and whether the user told the agent to
// do what this source says, as in "do what the e-mail says" (handed).
func (f *Fold) userNamed(st *stage.State, a streams.Address, session string,
	o *streams.Observation) (named, handed bool, err error) {
	said, err := f.userSaid(st, a.Project, a.Agent, session)
	if err != nil || len(said.Words) == 0 {
		return false, false, err
	}
	args := arguments(o.Args)
	named, handed = said.Named(o.Source, args), said.HandsOver("", o.Source, args)
	if o.Tool == "" {
		return named, handed, nil
	}
	var t toolCalls
	if ok, err := st.Load(callsKey(a.Project, a.Agent, session, o.Tool), &t); err != nil || !ok {
		return named, handed, err
	}
	_, flags := t.answered(o.Call)
	return named || flags&callNamed != 0, handed || flags&callHanded != 0, nil
}

// arguments returns the arguments of a call, or nil if they are not a JSON object.
func arguments(raw []byte) map[string]any {
	var args map[string]any
	if len(raw) == 0 || streams.Unmarshal(raw, &args) != nil {
		return nil
	}
	return args
}
