package stage

import (
	"testing"
	"time"

	"lazaret/internal/statement"
)

func TestAStatementExplainsWhatItListsAndAProjectsWhatCouldBeOfIt(t *testing.T) {
	at := time.Now()
	f := forgettings{listed: map[uint64]struct{}{3: {}, 30: {}}, last: 20, late: at.Add(statement.LateFor)}
	for _, test := range []struct {
		from, to uint64
		before   time.Time
		want     uint64
	}{
		{3, 3, at, 0},
		{5, 19, at, 0},                            // before the project's statement
		{25, 26, at.Add(time.Minute), 0},          // what other stages write soon after it
		{25, 26, at.Add(time.Hour), 25},           // not what comes later
		{30, 30, at.Add(time.Hour), 0},            // unless it is listed
		{30, 31, at.Add(time.Hour), 31},           // each by itself
		{18, 22, at.Add(time.Hour), 20},           // the statement itself stays
		{40, 1 << 20, at.Add(24 * time.Hour), 40}, // nothing speaks of these
	} {
		if got := f.explain(test.from, test.to, test.before); got != test.want {
			t.Errorf("%d to %d: %d is not explained, want %d", test.from, test.to, got, test.want)
		}
	}
	if got := new(forgettings).explain(1, 2, time.Time{}); got != 1 {
		t.Errorf("without a statement %d is not explained, want 1", got)
	}
}
