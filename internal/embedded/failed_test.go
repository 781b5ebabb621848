package embedded

import (
	"context"
	"errors"
	"testing"
	"time"
)

// At the first start, Start asks ingest for the active rules. If a stage fails meanwhile because its state is damaged,
// Start must return the error of the stage at once. It must not wait until its own time limit.
func TestAStageThatEndsWhileThePipelineStartsIsWhyItDoesNot(t *testing.T) {
	damaged := errors.New("the state is damaged")
	for name, f := range map[string]func(ctx context.Context) error{
		"asking":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"answered": func(context.Context) error { return errors.New("nobody answers") },
	} {
		p := &Pipeline{failed: make(chan struct{})}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if name == "answered" {
			p.fail("ingest", damaged)
		} else {
			go p.fail("ingest", damaged)
		}
		if err := p.unlessFailed(ctx, f); !errors.Is(err, damaged) || ctx.Err() != nil {
			t.Errorf("%s: the pipeline does not start because of %v", name, err)
		}
		cancel()
	}
	p := &Pipeline{failed: make(chan struct{})}
	if err := p.unlessFailed(t.Context(), func(context.Context) error { return damaged }); !errors.Is(err, damaged) {
		t.Errorf("without a failed stage: %v", err)
	}
}
