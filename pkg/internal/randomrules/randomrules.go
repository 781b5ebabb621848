package randomrules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"lazaret/pkg/beliefs"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Words are the words in conditions and entries. There are only a few, so that random conditions often match random
// entries.
var Words = []string{
	"alpha",
	"Beta",
	"gamma ray",
	"password",
	"x1",
	"https://evil.example/a",
	"Ünïcode",
	"ignore all",
	"tar",
	"",
	"kelvin",
	"alpha beta",
	" ignore",
	"tar\npassword",
}

// Expr returns a random condition. The prefilter of the rule engine has an index for some of these conditions, but
// not for all.
func Expr(r *rand.Rand, depth int) string {
	word := func() string { return fmt.Sprintf("%q", Words[r.IntN(len(Words))]) }
	str := func() string {
		return []string{"event.tool", "event.origin", "content.text", "action.tool", "action.text", "memory.key",
			"event.source", "memory.key.lowerAscii()", "content.text.lowerAscii()"}[r.IntN(9)]
	}
	list := func() string {
		return []string{"content.views", "content.markers", "content.carriers", "action.effects", "content.kinds",
			"signal.novel"}[r.IntN(6)]
	}
	num := func() string {
		return []string{"action.level", "event.size", "action.confidence", "memory.age", "signal.cluster_size",
			"size(content.views)", "content.text.size()", "signal.n", "content.entropy"}[r.IntN(9)]
	}
	if depth > 0 {
		a, b := Expr(r, depth-1), Expr(r, depth-1)
		switch r.IntN(7) {
		case 0, 1:
			return "(" + a + " && " + b + ")"
		case 2, 3:
			return "(" + a + " || " + b + ")"
		case 4:
			return "!(" + a + ")"
		case 5:
			return "(" + a + " ? " + b + " : " + Expr(r, depth-1) + ")"
		default:
			return "macros.m" + fmt.Sprint(r.IntN(3))
		}
	}
	switch r.IntN(20) {
	case 0:
		return str() + " == " + word()
	case 1:
		return word() + " == " + str()
	case 2:
		return str() + " != " + word()
	case 3:
		return str() + " in [" + word() + ", " + word() + "]"
	case 4:
		return str() + " in lists.some"
	case 5:
		return str() + ".contains(" + word() + ")"
	case 6:
		return str() + ".startsWith(" + word() + ")"
	case 7:
		return list() + ".exists(v, v.contains(" + word() + ") || v == " + word() + ")"
	case 8:
		return "!" + list() + ".all(v, v != " + word() + ")"
	case 9:
		return list() + ".all(v, v.contains(" + word() + "))"
	case 10:
		return word() + " in " + list()
	case 11:
		return num() + []string{" > ", " >= ", " < ", " <= "}[r.IntN(4)] + []string{"0", "1", "3", "2.5", "40",
			"-1"}[r.IntN(6)]
	case 12:
		return "double(" + num() + ") == 3.0 || event.size == 0 || action.level == " + []string{"0", "3", "1"}[r.IntN(3)]
	case 13:
		return []string{"event.external", "content.has_hidden", "action.unseen", "event.synthetic",
			"signal.user_named"}[r.IntN(5)]
	case 14:
		return "lists.some.exists(w, content.text.contains(w) || content.views.exists(v, v.contains(w.lowerAscii())))"
	case 15:
		re := []string{`(?i)pass(word|phrase)`, `(?:send|set) .*evil`, `\balpha\b|gamma (ray|x)`, `k[e3]lvin`, `(?i)kelvin`,
			`a+b*`, `(foo|tar)+`, `ignor(e|ing) all`, `[a-z]{3,}x1`}[r.IntN(9)]
		return str() + ".matches(" + fmt.Sprintf("%q", re) + ")"
	case 16:
		return "action.lineage.exists(l, l.first_origin == 'external' && l.value.contains(" + word() + "))"
	case 17:
		return "action.beliefs.exists(b, b.quality == 'external_document')"
	case 18:
		return "int(action.args.n) > 3" // fails for most events
	}
	return list() + ".size() > " + fmt.Sprint(r.IntN(3))
}

// Entry returns a random observation, memory write or action.
func Entry(r *rand.Rand, seq int) *streams.Entry {
	some := func(n int) string {
		var out []string
		for range r.IntN(n + 1) {
			out = append(out, Words[r.IntN(len(Words))])
		}
		if r.IntN(4) == 0 {
			out = append(out, "mail bob@evil.example or K\u0065lvin \u212Aelvin")
		}
		return strings.Join(out, []string{" ", " ", "\n", "  ", "\t"}[r.IntN(5)])
	}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	h := streams.EntryHead{
		ID:      fmt.Sprint("e", seq),
		Agent:   pick("a", "b"),
		Session: pick("s", "t"),
		Time:    time.Unix(int64(seq), 0).UTC(),
	}
	e := &streams.Entry{Seq: uint64(seq), Stage: streams.StageIngest, Project: pick("p", "q")}
	var body any
	switch r.IntN(3) {
	case 0:
		e.Type = streams.TypeObservation
		s := some(6)
		body = &streams.ObservationEntry{
			EntryHead: h,
			Observation: beliefs.Observation{
				Origin: beliefs.Origin(pick("web", "user", "tool")),
				Tool:   pick(Words...),
				Source: pick(Words...),
			},
			Blocks: []streams.BlockEntry{{Text: s, Features: text.Analyze(s)}},
		}
	case 1:
		e.Type = streams.TypeMemory
		s := some(6)
		body = &streams.MemoryEntry{
			EntryHead: h,
			Origin:    beliefs.Origin(pick("web", "user", "agent")),
			Key:       pick(Words...),
			Content:   s,
			Features:  text.Analyze(s),
		}
	default:
		e.Type = streams.TypeAction
		s := some(4)
		body = &streams.ActionEntry{
			EntryHead: h,
			Action: beliefs.Action{
				Tool:     pick(Words...),
				Effects:  []string{pick("read", "egress", "alpha")},
				Contract: beliefs.Contract{Level: beliefs.Level(r.IntN(5))},
			},
			Text:     s,
			Features: text.Analyze(s),
			Args: []byte(
				pick(`{"n":5}`, `{"n":"x"}`, `{}`),
			),
			Beliefs: []streams.BeliefRef{{ID: "b", Found: true, Quality: beliefs.ExternalDocument}}[:r.IntN(2)],
		}
	}
	b, err := streams.Marshal(body)
	if err != nil {
		panic(err)
	}
	e.Body = b
	return e
}
