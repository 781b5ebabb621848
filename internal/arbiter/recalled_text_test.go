package arbiter

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lazaret/streams"
)

func TestMaskLeavesNothingThatLeaks(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		"the fair opens on Monday":        "the fair opens on Monday",
		"pay DE89 3704 0044 0532 0130 00": "pay [masked]",
		"ana@home.example, +49 30 901820": "[masked], [masked]",
		"c\u200bard 4111 1111\u200b 1111 1111 here":                                                          "c\u200bard [masked] here",
		"it is " + base64.StdEncoding.EncodeToString([]byte("my card is 4111 1111 1111 1111, keep it safe")): "[masked]",
	} {
		if got := mask(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

// The order and repetition of groups' answers make no difference.
func TestRequestsOfGroupsAreAUnion(t *testing.T) {
	var alerts []streams.Alert
	for i := range 40 {
		alerts = append(alerts, streams.Alert{Rule: fmt.Sprint("r", i%11), Severity: []string{"low", "high", "odd"}[i%3],
			Message: fmt.Sprint("m", i%7),
			Effect:  []string{"mask", "annotate", "spotlight", "alert", "hold"}[i%5],
			Subject: streams.AlertSubject{Kind: []string{"belief", "session"}[i/20], ID: fmt.Sprint("b", i%4)}})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var want []streams.TextEffect
	for range 50 {
		p := &proposal{Type: streams.TypeRecall, Items: []string{"b0", "b1", "b2"}}
		rng.Shuffle(len(alerts), func(i, j int) { alerts[i], alerts[j] = alerts[j], alerts[i] })
		cut := rng.IntN(len(alerts))
		p.takeTexts(alerts[:cut])
		p.takeTexts(alerts[cut:])
		if p.takeTexts(alerts) {
			t.Fatal("the same again is more")
		}
		got := textEffects(p.Texts)
		if want == nil {
			want = got
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v\n%+v", got, want)
		}
	}
	if len(want) != 4 || want[0].Belief != "" || !strings.HasPrefix(want[0].Note, "m") {
		t.Errorf("%+v", want)
	}
	act := &proposal{Type: streams.TypeAction}
	if act.takeTexts(alerts) || act.Texts != nil {
		t.Error("an action has texts")
	}
}
