package inquiry

import (
	"context"

	"lazaret/internal/ceiling"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Redactor removes the bodies of entries above a sensitivity.
type Redactor struct {
	to     beliefs.Sensitivity
	labels ceiling.Labels

	// Redacted is the number of removed bodies.
	Redacted int
}

// Ceiling returns a Redactor for entries above a sensitivity. It reads the whole log first, because a later
// entry may raise the sensitivity of earlier content.
func (l *Log) Ceiling(ctx context.Context, to beliefs.Sensitivity) (*Redactor, error) {
	r := &Redactor{to: to, labels: ceiling.Labels{Whole: true}}
	if beliefs.Secret.Within(to) {
		return r, nil
	}
	told := l.told // this reading must not change the counts of Integrity
	err := l.Range(ctx, 0, l.Size(), nil, func(e *Entry) error {
		r.labels.Scan(labelled(e))
		return nil
	})
	l.told = told
	return r, err
}

// Redact removes an entry's body if its sensitivity is above the limit. The other fields stay; they suffice to compute
// the leaf and so the tree.
func (r *Redactor) Redact(e *Entry) {
	if beliefs.Secret.Within(r.to) || e.Kind != "entry" || len(e.Body) == 0 {
		return
	}
	if as := r.labels.Of(labelled(e)); !as.Within(r.to) {
		e.Redacted, e.Body = as.String(), nil
		r.Redacted++
	}
}

func labelled(e *Entry) ceiling.Entry {
	return ceiling.Entry{Project: e.Project, Seq: e.Seq, Src: e.Src, Ingest: e.Stage == streams.StageIngest, Body: e.Body}
}
