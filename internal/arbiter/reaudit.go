package arbiter

import (
	"time"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// In a re-audit, the rules in force judge the existing beliefs again. When one is due, the arbiter only adds an entry
// that says so, as for every timer. Ingest folds that entry, and adds the entries with the beliefs.

// scheduleReaudit sets the timer of the next re-audit according to the policy in force.
func (f *Fold) scheduleReaudit(st *stage.State, now time.Time) error {
	at, err := timeAt(st, keyReaudit)
	if err != nil {
		return err
	}
	every, err := f.reauditEvery(st)
	if err != nil {
		return err
	}
	if every > 0 && !at.IsZero() && !at.After(now.Add(every)) {
		return nil // activating a policy again does not postpone the re-audit
	}
	return f.nextReaudit(st, now)
}

// nextReaudit sets the timer again, counted from now. If several re-audits were missed while the pipeline was down,
// they are replaced by one.
func (f *Fold) nextReaudit(st *stage.State, now time.Time) error {
	at, err := timeAt(st, keyReaudit)
	if err != nil {
		return err
	}
	if err := f.dropTimer(st, at, timerReaudit, nil); err != nil {
		return err
	}
	every, err := f.reauditEvery(st)
	if err != nil {
		return err
	}
	if every == 0 {
		return st.Delete([]byte{keyReaudit})
	}
	next := now.Add(every)
	if err := st.Set([]byte{keyReaudit}, timeKey(next)); err != nil {
		return err
	}
	return f.addTimer(st, next, timerReaudit, nil)
}

func (f *Fold) reauditEvery(st *stage.State) (time.Duration, error) {
	pol, _, err := f.policies.Active(st, streams.DoActivatePolicy)
	if err != nil || pol == nil {
		return 0, err
	}
	return pol.Reaudit, nil
}
