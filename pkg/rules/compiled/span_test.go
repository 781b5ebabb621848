package compiled

import (
	"strings"
	"testing"
)

func TestSpansAreWhatWasWritten(t *testing.T) {
	env, err := BaseEnv()
	if err != nil {
		t.Fatal(err)
	}
	sc := NewScope(env, BaseVars())
	for src, want := range map[string]string{
		"!(event.external && memory.external) || size(content.views) > -1": "event.external | " +
			"memory.external | !(event.external && memory.external) | size(content.views) > -1",
		"(event.tool == 'é)' || event.source.size() > 3)\n  && 'x' in [event.tool, 'y']": "event.tool == 'é)' | " +
			"event.source.size() > 3 | 'x' in [event.tool, 'y']",
		"action.beliefs.exists(b, b.found && b.id != \"(\") ? event.synthetic : true": "action.beliefs.exists(b, " +
			"b.found && b.id != \"(\") | b.found | b.id != \"(\"",
		"content.views.filter(v, v.contains('a') || v == 'b').size() == 2 && event.external": "content.views.filter(v, " +
			"v.contains('a') || v == 'b').size() == 2 | v.contains('a') | v == 'b' | event.external",
		"signal.echo.all(s, !s.user_named) && action.args.x[0].y == 3": "signal.echo.all(s, " +
			"!s.user_named) | action.args.x[0].y == 3",
	} {
		tr, err := sc.Trace(src)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		seen := make(map[string]bool)
		for _, e := range Branches(tr.AST.Expr()) {
			s := tr.Text(e)
			got, seen[s] = append(got, s), true
		}
		for _, s := range strings.Split(want, " | ") {
			if !seen[s] {
				t.Errorf("%s: no part reads %s: %q", src, s, got)
			}
		}
		if n := len(strings.Split(want, " | ")); len(got) != n {
			t.Errorf("%s: %d parts, want %d: %q", src, len(got), n, got)
		}
	}
}
