package policy

import (
	"testing"

	"lazaret/pkg/beliefs"
)

func TestReadingAFileWithSecretsIsNoReading(t *testing.T) {
	p := shipped(t)
	for _, x := range []struct {
		of, tool, args string
		want           beliefs.Level
	}{
		{"", "read_file", `{"path":"/home/ana/.ssh/id_rsa"}`, beliefs.L4},
		{"", "read_file", `{"path":"/etc/shadow"}`, beliefs.L4},
		{"", "fs.read_many", `{"paths":["README.md","~/.aws/credentials"]}`, beliefs.L4},
		{"", "get_content", `{"resource":"/home/ana/.netrc"}`, beliefs.L4},
		{"", "read_resource", `{"uri":"file:///home/ana/.netrc"}`, beliefs.L4},
		{"claude-code", "Read", `{"file_path":"/home/ana/app/.env"}`, beliefs.L4},
		{"claude-code", "Read", `{"file_path":"/home/ana/app/secret_manager.go"}`, beliefs.L1},
		{"claude-code", "Grep", `{"pattern":".env","path":"src"}`, beliefs.L1},
		{"", "search_files", `{"pattern":"id_rsa"}`, beliefs.L1},
		{"", "read_file", `{"path":".env.example"}`, beliefs.L1},
		{"", "read_file", `{"path":"/home/ana/.ssh/id_rsa.pub"}`, beliefs.L1},
		{"", "kb.search", `{"q":"credentials"}`, beliefs.L1},
		{"", "edit_file", `{"path":"app/.env"}`, beliefs.L3},
	} {
		c := p.Class(Call{Tool: x.tool, Args: []byte(x.args), Of: x.of})
		if c.Level != x.want || c.Has(EffectSecret) != (x.want == beliefs.L4) {
			t.Errorf("%s of %q with %s: %s, want %s", x.tool, x.of, x.args, show(c), x.want)
		}
	}
	l1 := beliefs.L1
	if c := p.Class(Call{Tool: "read_file", Args: []byte(`{"path":".env"}`), Accepted: &l1}); c.Level != beliefs.L1 {
		t.Errorf("a person accepted the tool: %s", show(c))
	}
}
