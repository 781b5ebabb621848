package arbiter

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"lazaret/pkg/text"
	"lazaret/streams"
)

// textRequest has the effects that groups ask for on one recalled text, or on all if Belief is empty. The requests of
// all groups are joined, and are never withdrawn. The verdict's entry has the requests, and the front applies them to
// the texts in the recall's entry. Both entries are in the ledger, so the ledger shows which texts the agent got.
type textRequest struct {
	Belief  string    `json:"belief,omitzero"`
	Effects []string  `json:"effects"`
	Notes   []message `json:"notes,omitzero"`
	Rules   []string  `json:"rules,omitzero"`
}

// message is the message of an alert with the effect annotate.
type message struct {
	Rank int    `json:"rank"` // rank of the severity
	Text string `json:"text"`
}

// Limits on the texts in a textRequest. A group may be a third party's program.
const (
	maxNotes     = 3
	maxNote      = 300 // bytes
	maxTextRules = 8
)

var severityRank = []string{"info", "low", "medium", "high", "critical"}

// takeTexts adds the text effects that a group's alerts ask for to the earlier ones. It reports whether an effect is
// new. An alert that names no item of the recall applies to all items, because a rule that failed cannot name one.
func (p *proposal) takeTexts(alerts []streams.Alert) (more bool) {
	if p.Type != streams.TypeRecall {
		return false
	}
	for i := range alerts {
		al := &alerts[i]
		if al.Mode == "shadow" || al.Exception != "" || !streams.IsTextEffect(al.Effect) {
			continue
		}
		w := textRequest{Effects: []string{al.Effect}, Rules: []string{streams.Clip(al.Rule, maxReasonText)}}
		if al.Subject.Kind == "belief" && slices.Contains(p.Items, al.Subject.ID) {
			w.Belief = al.Subject.ID
		}
		if al.Effect == streams.EffectAnnotate {
			w.Notes = []message{{slices.Index(severityRank, al.Severity), streams.Clip(al.Message, maxNote)}}
		}
		more = p.request(w) || more
	}
	return more
}

func (p *proposal) request(w textRequest) (more bool) {
	i, ok := slices.BinarySearchFunc(p.Texts, w.Belief, func(t textRequest, id string) int {
		return strings.Compare(t.Belief, id)
	})
	if !ok {
		p.Texts = slices.Insert(p.Texts, i, textRequest{Belief: w.Belief})
	}
	return p.Texts[i].unite(w)
}

// unite joins two requests. It is commutative and associative, so the order in which groups answer makes no difference.
func (w *textRequest) unite(o textRequest) (more bool) {
	had := len(w.Effects)
	all := append(slices.Clone(w.Effects), o.Effects...)
	w.Effects = slices.DeleteFunc(streams.TextEffects(), func(e string) bool { return !slices.Contains(all, e) })
	w.Notes = append(w.Notes, o.Notes...)
	slices.SortFunc(w.Notes, func(a, b message) int { return cmp.Or(b.Rank-a.Rank, strings.Compare(a.Text, b.Text)) })
	w.Notes = slices.Compact(w.Notes)
	w.Notes = w.Notes[:min(len(w.Notes), maxNotes)]
	w.Rules = append(w.Rules, o.Rules...)
	slices.Sort(w.Rules)
	w.Rules = slices.Compact(w.Rules)
	w.Rules = w.Rules[:min(len(w.Rules), maxTextRules)]
	return len(w.Effects) > had
}

// textEffects returns requests as they are in a verdict's entry. If a text is masked, the notes are masked too, because
// they could reveal the masked content.
func textEffects(ws []textRequest) []streams.TextEffect {
	var out []streams.TextEffect
	masked := slices.ContainsFunc(ws, func(w textRequest) bool { return slices.Contains(w.Effects, streams.EffectMask) })
	for _, w := range ws {
		var notes []string
		for _, n := range w.Notes {
			if masked {
				n.Text = mask(n.Text)
			}
			notes = append(notes, n.Text)
		}
		out = append(out, streams.TextEffect{Belief: w.Belief, Effects: w.Effects, Note: strings.Join(notes, "; "),
			Rules: w.Rules})
	}
	return out
}

// recalled yields each item that a recall would return.
func recalled(r *streams.RecallEntry) iter.Seq[*streams.RecallItem] {
	return func(yield func(*streams.RecallItem) bool) {
		for _, items := range [][]streams.RecallItem{r.Admitted, r.ContextOnly, r.Contradictions} {
			for i := range items {
				if !yield(&items[i]) {
					return
				}
			}
		}
	}
}

// applyTexts applies a verdict's effects to the texts of a reply, in the order mask, annotate, spotlight, each at most
// once.
func applyTexts(r *streams.RecallEntry, texts []streams.TextEffect) {
	if len(texts) == 0 {
		return
	}
	for it := range recalled(r) {
		var asked, notes []string
		for _, t := range texts {
			if t.Belief == "" || t.Belief == it.ID {
				asked = append(asked, t.Effects...)
				if t.Note != "" {
					notes = append(notes, t.Note)
				}
			}
		}
		label := it.Source
		for _, effect := range streams.TextEffects() {
			if !slices.Contains(asked, effect) {
				continue
			}
			switch effect {
			case streams.EffectMask:
				it.Content, label = mask(it.Content), mask(label)
			case streams.EffectAnnotate:
				it.Content = text.Annotate(it.Content, strings.Join(notes, "; "))
			case streams.EffectSpotlight:
				it.Content = text.Spotlight(it.Content, label)
			}
			it.Effects = append(it.Effects, effect)
		}
	}
}

// spotlight marks untrusted texts (text.Spotlight): all context-only and contradicting texts, and admitted texts of
// external origin. Texts that a rule already had spotlighted are not changed.
func spotlight(r *streams.RecallEntry) {
	wrap := func(items []streams.RecallItem, all bool) {
		for i := range items {
			it := &items[i]
			if (all || it.Origin.External()) && !slices.Contains(it.Effects, streams.EffectSpotlight) {
				it.Content = text.Spotlight(it.Content, mask(it.Source))
				it.Effects = append(it.Effects, streams.EffectSpotlight)
			}
		}
	}
	wrap(r.Admitted, false)
	wrap(r.ContextOnly, true)
	wrap(r.Contradictions, true)
}

// leaking are the kinds of carriers whose value is a secret or personal data.
var leaking = text.KindsWith(func(t text.Traits) bool { return t.Personal })

// mask removes secrets and personal data from a text. If the text has such a value only in encoded form, it is unknown
// where the value is, so the whole text is masked.
func mask(s string) string {
	s = text.Mask(s, text.CarrierSpans(s, leaking...))
	for _, c := range text.Analyze(s).Carriers {
		if slices.Contains(leaking, c.Kind) {
			return text.Mask(s, []text.Span{{End: len(s)}})
		}
	}
	return s
}
