package sentinel

import (
	"fmt"
	"strings"
	"testing"

	"lazaret/streams"
)

func TestPromiseC20AnAssessmentOfAnyNumberOfAlertsFits(t *testing.T) {
	e := &streams.Entry{Seq: 7, Stage: streams.StageIngest, Type: streams.TypeRecall, Project: "demo"}
	for _, n := range []int{1, fewAlerts, 500, 20_000} {
		var alerts []streams.Alert
		for i := range n {
			a := streams.Alert{ID: fmt.Sprint("a", i), Rule: fmt.Sprint("r", i), Severity: "medium",
				Message: strings.Repeat("\x01", 1000), Effect: streams.EffectAlert, Mode: "enforce",
				Events: []string{"e"}, Detail: map[string]any{"source": strings.Repeat("s", 200)},
				Subject: streams.AlertSubject{Kind: "belief", ID: fmt.Sprint("b", i)}, Count: 1}
			switch {
			case i%5000 == 4999:
				a.Effect = streams.EffectDeny
			case i%2 == 1:
				a.Effect = streams.EffectMask
			}
			alerts = append(alerts, a)
		}
		got, err := limitAlerts(e, "core", alerts)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := streams.Marshal(got); err != nil || len(b) > 2*maxAlertBytes {
			t.Errorf("%d alerts: %d bytes, %v", n, len(b), err)
		}
		denies, masks, all := 0, 0, false
		for i := range got {
			switch got[i].Effect {
			case streams.EffectDeny:
				denies++
			case streams.EffectMask:
				masks++
				all = all || got[i].Subject.Kind == "event"
			}
		}
		if denies != n/5000 {
			t.Errorf("%d alerts: %d of %d that deny are left", n, denies, n/5000)
		}
		if masks < n/2-n/5000 && !all {
			t.Errorf("%d alerts: %d mask, and none masks every text", n, masks)
		}
		if n <= fewAlerts && len(got) != n {
			t.Errorf("%d alerts became %d", n, len(got))
		}
	}
}
