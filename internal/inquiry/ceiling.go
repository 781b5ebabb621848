package inquiry

import (
	"context"

	"lazaret/internal/ceiling"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// Redactor takes the bodies of entries that are more sensitive than may leave.
type Redactor struct {
	to     beliefs.Sensitivity
	labels ceiling.Labels

	// Redacted counts the entries whose bodies were taken.
	Redacted int
}

// Ceiling returns a redactor for what may be at most that sensitive. It reads the
// whole log first: what is marked late is not to leave in what was read before.
func (l *Log) Ceiling(ctx context.Context, to beliefs.Sensitivity) (*Redactor, error) {
	r := &Redactor{to: to}
	if beliefs.Secret.Within(to) {
		return r, nil
	}
	told := l.told // what is told is counted when it is told
	err := l.Range(ctx, 0, l.Size(), nil, func(e *Entry) error {
		r.labels.Scan(labelled(e))
		return nil
	})
	l.told = told
	return r, err
}

// Redact takes an entry's body if it may not leave. What stays are its place in
// the log, who wrote it and the commitment: the leaf can be computed from them,
// and so can the tree.
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
