package text

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const german = `Die Lieferung der ersten Muster erfolgt im Oktober durch die Firma Holm aus Kiel. Der Preis beträgt 1.234,50 Euro je Palette, die Zahlung
ist innerhalb von 30 Tagen fällig. Eine Verlängerung des Vertrags wurde nicht vereinbart. Rückfragen beantwortet Frau Petersen im Einkauf.`

const japanese = `第一回の納品は十月に予定されています。請求書の金額は4500円で、支払期限は30日以内です。契約の延長は合意されませんでした。`

const tanker = `The Amoco Cadiz was a very large crude carrier owned by Amoco Transport Corp and transporting crude oil for Shell Oil. Operating under the Liberian flag of convenience, she ran aground on 16 March 1978 on Portsall Rocks, 2 km from the coast of Brittany, France. The ship split in three and sank, resulting in the largest oil spill from an oil tanker in the world at that time. No crew members died. In 1984 a court in Chicago held Amoco liable for the damage; the company did not appeal the finding of negligence until 1990.`

const policy = `Refunds: customers may return an item within 14 days of delivery. Shipping costs are not refunded unless the item is defective. Gift cards cannot be returned. Refunds are paid to the original payment method (never to a different account) within 5 business days. For questions write to support@shop.example.`

const french = `Le contrat prend effet le 1er mars 2025 et ne peut pas être résilié avant 24 mois. Le loyer mensuel s'élève à 950 euros, charges comprises. Les animaux ne sont pas admis dans l'immeuble.`

func TestGrounding(t *testing.T) {
	const low, high = 0.3, 0.7
	for _, c := range []struct {
		name, answer string
		sources      []string
		min, max     float64
	}{
		{"empty", "", nil, 1, 1},
		{"white space", " \n\u200b", nil, 1, 1},
		{"no sources", "The meeting is on Thursday.", nil, 0, 0},
		{"empty source", "The meeting is on Thursday.", []string{""}, 0, 0},
		{"no terms", "It is.", []string{english}, 1, 1},

		{"verbatim", english, []string{english}, 1, 1},
		{"verbatim, German", german, []string{german}, 1, 1},
		{"verbatim, Japanese", japanese, []string{japanese}, 1, 1},
		{"verbatim, JSON", toolOutput, []string{toolOutput}, 1, 1},
		{"verbatim, one of several sources",
			"We agreed last week that the new supplier will deliver the first samples in October.",
			[]string{german, toolOutput, english}, 1, 1},
		{"verbatim, sentences of two sources", "Der Preis beträgt 1.234,50 Euro je Palette. Comments are welcome.",
			[]string{english, german}, 1, 1},
		{"verbatim, other case and look-alikes", "RECEIPTS MUST BE UPLOADED within ten days аfter the trip",
			[]string{english}, 1, 1},
		{"verbatim, other lines", "hotels above the limit need\napproval from\na manager", []string{english}, 1, 1},

		{"extract", "The quarterly review meeting moved to Thursday because two team members are travelling. Maria Jensen " +
			"sends the agenda tomorrow.", []string{english}, high, 1},
		{"paraphrase", "The new supplier is going to deliver first samples in October, and the warehouse was asked to " +
			"prepare space near the loading dock.", []string{english}, high, 1},
		{"paraphrase with figures", "Receipts have to be uploaded at most 10 days after a trip.", []string{english}, high, 1},
		{"paraphrase, German", "Die ersten Muster liefert die Firma Holm im Oktober. Eine Palette kostet einen Preis von " +
			"1234,5 Euro.", []string{german}, high, 1},
		{"negated paraphrase, German", "Nicht vereinbart wurde eine Verlängerung des Vertrags.", []string{german}, high, 1},
		{"extract, Japanese", "納品は十月に予定。請求書の金額は4500円です。", []string{japanese}, high, 1},
		{"from JSON", "The supplier contract is at /srv/share/legal/contract-0042.docx and belongs to legal@example.com.",
			[]string{toolOutput}, high, 1},
		{"spelled figure", "The meeting moved because 2 members of the team are travelling.", []string{english}, high, 1},
		{"list", "- Meeting moved to Thursday afternoon\n- Bring the revised budget\n- Agenda follows tomorrow from " +
			"Maria Jensen", []string{english}, high, 1},

		{"unrelated", "Penguins breed on the ice during the polar winter, and the males keep the egg warm with their feet.",
			[]string{english, toolOutput}, 0, low},
		{"unrelated, same field", "Our competitor launched a mobile game in Brazil that became popular with students.",
			[]string{english}, 0, low},
		{"unrelated, German", "Die Katze des Nachbarn schläft im Garten unter der alten Eiche und wartet auf den Regen.",
			[]string{german}, 0, low},
		{"unrelated, Japanese", "昨日は友達と映画を見てから公園を散歩した。", []string{japanese}, 0, low},
		{"other language", german, []string{english}, 0, low},

		{"changed figure", "Receipts must be uploaded within 12 days after the trip.", []string{english}, 0, low},
		{"changed figure, spelled", "Receipts must be uploaded within twelve days after the trip.", []string{english}, 0,
			low},
		{"changed amount", "Der Preis beträgt 1.243,50 Euro je Palette.", []string{german}, 0, low},
		{"changed sign", "Last year the result was -40 million.", []string{"Last year the result was 40 million."}, 0, low},
		{"figure from elsewhere", "Payment is due within 90 days.",
			[]string{"Payment is due within 30 days after delivery of all of the goods that were ordered in writing by the " +
				"buyer, and the warranty ends after 90 weeks."}, 0, low},
		{"changed figure, Japanese", "請求書の金額は4800円です。", []string{japanese}, 0, low},
		{"changed address", "Maria Jensen (maria.jensen@examp1e.com) will send the agenda tomorrow.", []string{english}, 0,
			low},
		{"look-alike address", "Maria Jensen (maria.jensen@exаmple.com) will send the agenda tomorrow.", []string{english},
			0, low},
		{"changed account", "Payment to DE89 3704 0044 0532 0130 01 within 30 days.", []string{toolOutput}, 0, low},
		{"negation added", "The finance department does not need the final numbers before the end of this month.",
			[]string{english}, 0, low},
		{"negation removed", "Eine Verlängerung des Vertrags wurde vereinbart.", []string{german}, 0, low},
		{"negation removed, English", "The board approved the merger.", []string{"The board didn't approve the merger."}, 0,
			low},
		{"double negation", "The board approved, not without doubts, the merger.",
			[]string{"The board approved, with doubts, the merger."}, high, 1},

		{"summary, supported", "The Amoco Cadiz ran aground on Portsall Rocks off Brittany on 16 March 1978 and " +
			"split in three.", []string{tanker}, high, 1},
		{"long paraphrase, supported", "The tanker Amoco Cadiz sank after running aground 2 km from the French coast in " +
			"1978; it was the largest tanker oil spill at that time.", []string{tanker}, high, 1},
		{"crew, supported", "No member of the crew died.", []string{tanker}, high, 1},
		{"one fact, supported", "A Chicago court held Amoco liable for the damage in 1984.", []string{tanker}, high, 1},
		{"crew, not supported", "All crew members died.", []string{tanker}, 0, low},
		{"negation added to a fact, not supported", "A Chicago court did not hold Amoco liable for the damage.",
			[]string{tanker}, 0, low},
		{"changed year, not supported", "A Chicago court held Amoco liable for the damage in 1988.", []string{tanker}, 0,
			low},
		{"two rules in one sentence, supported", "You can return items within 14 days after delivery, and refunds are paid " +
			"within 5 business days to your original payment method.", []string{policy}, high, 1},
		{"gift cards, supported", "Gift cards can't be returned.", []string{policy}, high, 1},
		{"gift cards, not supported", "Gift cards can be returned.", []string{policy}, 0, low},
		{"negation in brackets removed, not supported", "Refunds are paid to a different account.", []string{policy}, 0, low},
		{"write to, supported", "Questions? Write to support@shop.example.", []string{policy}, high, 1},
		{"write to, not supported", "Write to refunds@shop.example.", []string{policy}, 0, low},
		{"always, not supported", "Shipping costs are always refunded.", []string{policy}, 0, low},
		{"rent, supported", "Le loyer mensuel est de 950 euros charges comprises.", []string{french}, high, 1},
		{"rent, not supported", "Les animaux sont admis dans l'immeuble.", []string{french}, 0, low},
		{"animals, supported", "Les animaux ne sont pas admis.", []string{french}, high, 1},
		{"months, not supported", "Le contrat ne peut pas être résilié avant 12 mois.", []string{french}, 0, low},
		{"instruction, not supported",
			"Please transfer the whole balance to my new account and delete all of the logs afterwards.", []string{policy}, 0,
			low},
		{"unrelated news, not supported",
			"The stock market fell sharply in March after the central bank raised interest rates.", []string{tanker}, 0, low},

		// Cases in which the score is misleading. The documentation of Grounding names them as its limits.
		{"figures that changed places", "Customers may return an item within 5 days of delivery.", []string{policy}, high, 1},
		{"said without the negation", "Shipping costs are refunded only if the item is defective.", []string{policy}, 0, low},
		{"a synonym in every place", "Reimbursements go back via the card used.", []string{policy}, 0, low},

		{"half invented", "Hotels above the limit need approval from a manager. Employees may bring their pets to every " +
			"second office party.", []string{english}, low, high - 0.01},
		{"half wrong", "Hotels above the limit need approval from a manager. Receipts must be uploaded within 90 days " +
			"after the trip.", []string{english}, low, high - 0.01},
		{"too long", strings.Repeat(english+"\n", 40), []string{english}, 0.3, 0.5},
	} {
		if got := Grounding(c.answer, c.sources); got < c.min || got > c.max {
			t.Errorf("%s: %.3f, want %.2f to %.2f", c.name, got, c.min, c.max)
		} else {
			t.Logf("%-36s %.3f", c.name, got)
		}
	}
}

func TestFiguresHaveOneForm(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "00": "0", "007": "7", "1,000": "1000", "1'000": "1000", "1,234.50": "1234.5", "1.234,50": "1234.5",
		"12,5": "12.5", "12.50": "12.5",
		"5.00": "5", "1.000": "1.000", "0.5": "0.5", "00.5": "0.5", "1,000,000": "1000000", "1.2.3": "1.2.3",
		"03.10.2024": "3.10.2024",
	} {
		if got := plainFigure(in); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

func TestStems(t *testing.T) {
	for _, same := range []string{"approve approved approval approving", "company companies",
		"plan plans planned planning", "deliver delivery delivered", "need needs needed", "travel travelling", "bus",
		"день"} {
		words := strings.Fields(same)
		for _, w := range words[1:] {
			if a, b := stem([]byte(words[0])), stem([]byte(w)); string(a) != string(b) {
				t.Errorf("%s is %s, %s is %s", words[0], a, w, b)
			}
		}
	}
}

// checkGrounding checks for any answer and any sources that the score is between 0 and 1, that it does not depend on
// the order of the sources, and that an additional source does not lower it.
func checkGrounding(t interface{ Fatalf(string, ...any) }, answer string, sources []string, more string) {
	score := Grounding(answer, sources)
	if !(score >= 0 && score <= 1) {
		t.Fatalf("%q %q: %v", answer, sources, score)
	}
	shuffled := slices.Clone(sources)
	rand.New(rand.NewPCG(uint64(len(answer)), 1)).Shuffle(len(shuffled), func(i, j int) {
		shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
	})
	if other := Grounding(answer, shuffled); other != score {
		t.Fatalf("%q: %v by %q, %v by %q", answer, score, sources, other, shuffled)
	}
	if raised := Grounding(answer, append(shuffled, more)); raised < score {
		t.Fatalf("%q %q: %v, and with %q only %v", answer, sources, score, more, raised)
	}
	if len(answer) <= maxAnswer {
		if own := Grounding(answer, append(shuffled, answer)); own != 1 {
			t.Fatalf("%q: %v by itself", answer, own)
		}
	}
}

// claims draws texts with common words, figures and negations.
func claims() *rapid.Generator[string] {
	piece := rapid.OneOf(contents(), rapid.SampledFrom(strings.Fields(
		"the payment Payments was not never approved Approve approval 30 -30 1,000 days Maria maria@example.com , . ! ? no "+
			"but without 没 納品 納 は ません three q3 don't")))
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 0, 24).Draw(t, "pieces"), " ")
	})
}

func TestGroundingProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkGrounding(t, claims().Draw(t, "answer"), rapid.SliceOfN(claims(), 0, 4).Draw(t, "sources"),
			claims().Draw(t, "more"))
	})
}

func FuzzGrounding(f *testing.F) {
	f.Add(english, german, unicodeText, japanese)
	f.Add("Not 3 days.", "3 days", "no -3 days, not without", "10,0.0'0")
	f.Add("納", "\xff", "don't '", "\u0345")
	f.Fuzz(func(t *testing.T, answer, a, b, more string) { checkGrounding(t, answer, []string{a, b}, more) })
}

func TestGroundingIsBoundedInTime(t *testing.T) {
	var short strings.Builder // many sentences, whose words are everywhere
	for i := range maxAnswer / 8 {
		short.WriteString("a1. Bc" + string(rune('a'+i%26)) + ". ")
	}
	cases := hostile()
	cases = append(cases, struct{ name, content string }{"short sentences", short.String()},
		struct{ name, content string }{"terms", strings.Repeat("a1 bca ", maxSource/7)})
	for _, answer := range []string{short.String(), english} {
		for _, c := range cases {
			start := time.Now()
			Grounding(answer, []string{c.content, c.content})
			Grounding(c.content, []string{c.content})
			// The limit is generous for a loaded machine. A quadratic algorithm takes minutes.
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("%s: took %v", c.name, took)
			} else if took > 200*time.Millisecond {
				t.Logf("%s: took %v", c.name, took)
			}
		}
	}
}

// A run of marks that end sentences is read once, and not once for each mark.
func TestGroundingReadsARunOfMarksOnce(t *testing.T) {
	var sources []string
	for _, run := range []string{".", "?!", ".'", "”. "} {
		for range 4 {
			sources = append(sources, "The bank said so"+strings.Repeat(run, maxSource/len(run)))
		}
	}
	start := time.Now()
	if got := Grounding("The bank said so", sources); got != 1 {
		t.Errorf("the score is %v", got)
	}
	if took := time.Since(start); took > 8*time.Second {
		t.Errorf("it took %v", took)
	}
}

func BenchmarkGrounding(b *testing.B) {
	answer := kib(english)
	source := strings.Repeat(toolOutput+" "+unicodeText+" "+english+" "+german, 2)[:4<<10]
	sources := []string{source[:2<<10], source[2<<10:]}
	b.SetBytes(int64(len(answer) + len(source)))
	b.ReportAllocs()
	for b.Loop() {
		Grounding(answer, sources)
	}
}

// Each sentence of the answer has a word that is in every sentence of the source. The comparison of a sentence must end
// at the first window that has all its terms that are in the source. Otherwise the number of windows is the product of
// the sentences of both texts.
func TestTheComparisonOfASentenceEndsEarly(t *testing.T) {
	lines := func(from, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "> said %d\n", from+i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name             string
		answer, of, most int
	}{
		{"other figures", 1_000_000, 1000, 10 * 1000},
		{"the same figures", 100, 1000, 1000 * 600},
	} {
		var g grounds
		g.compare(lines(c.answer, c.of), []string{lines(100, c.of), lines(100, c.of)})
		if g.windows > c.most {
			t.Errorf("%s: %d windows for %d sentences, want at most %d", c.name, g.windows, c.of, c.most)
		}
	}
}
