package holds

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/diff"

	"lazaret/internal/cli"
	"lazaret/internal/ingest"
	"lazaret/internal/query"
	"lazaret/internal/stage"
	"lazaret/internal/wire"
	"lazaret/pkg/position"
	"lazaret/pkg/text"
	"lazaret/streams"
)

// Prompts returns the registered prompts of a project: all with their latest version, or the named one
// with every known version.
func Prompts(ctx context.Context, nc *nats.Conn, project, name string) (out []ingest.Prompt, err error) {
	err = query.Ask(ctx, nc, ingest.AskPrompts, streams.PartitionOf(project),
		ingest.PromptsRequest{Project: project, Name: name}, &out)
	return out, err
}

// PromptVersion returns a version of a prompt; 0 is the latest.
func PromptVersion(ctx context.Context, nc *nats.Conn, project, name string, version int) (*streams.PromptVersion,
	error) {
	list, err := Prompts(ctx, nc, project, name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("project %s has no prompt %s", project, name)}
	}
	known := list[0].Versions
	if version == 0 {
		return &known[len(known)-1], nil
	}
	for i := range known {
		if known[i].Version == version {
			return &known[i], nil
		}
	}
	return nil, &cli.Exit{Code: cli.ExitNegative, Text: fmt.Sprintf("prompt %s has no version %d, the latest is %d", name,
		version, known[len(known)-1].Version)}
}

// PromptText returns the text of a registered version from the ledger.
func PromptText(ctx context.Context, nc *nats.Conn, v *streams.PromptVersion) (string, error) {
	js := wire.JetStream(nc)
	e, err := stage.ReadEntry(ctx, js, v.Entry)
	if err != nil {
		return "", fmt.Errorf("version %d is in ledger entry %s, which cannot be read: %w", v.Version,
			position.Text(v.Entry), err)
	}
	a, err := streams.Read[streams.ActionEntry](&e)
	if err != nil {
		return "", err
	}
	args := new(streams.RegisterPromptArgs)
	if err := streams.Unmarshal(a.Args, args); err != nil {
		return "", err
	}
	if args.Digest != v.Digest || args.Check() != nil {
		return "", fmt.Errorf("ledger entry %s does not have the text of version %d: check the log", position.Text(v.Entry),
			v.Version)
	}
	return args.Text, nil
}

// ProposedPrompt returns the prompt that a hold asks to register, or nil for another kind of hold.
func ProposedPrompt(tool, body string) *streams.RegisterPromptArgs {
	args := new(streams.RegisterPromptArgs)
	if tool != streams.RegisterPrompt || streams.Unmarshal([]byte(body), args) != nil || args.Check() != nil {
		return nil
	}
	return args
}

// PromptDiff returns the differences of two texts of a prompt in displayable form, or "" if they are
// equal. Two texts that differ are displayed differently: a backslash is doubled, so that it cannot
// be taken for the start of an escape, and a carriage return is displayed as \r.
func PromptDiff(oldName, old, newName, next string) string {
	return text.Inert(string(diff.Diff(oldName, displayed(old), newName, displayed(next))))
}

func displayed(s string) []byte {
	return []byte(strings.NewReplacer(`\`, `\\`, "\r", `\r`).Replace(s))
}

// Against compares a text with the latest registered version of a prompt.
func Against(ctx context.Context, nc *nats.Conn, project, name, proposed string) (latest *streams.PromptVersion,
	changes string, err error) {
	list, err := Prompts(ctx, nc, project, name)
	if err != nil {
		return nil, "", err
	}
	was, title := "", "nothing"
	if len(list) == 1 {
		latest = &list[0].Versions[len(list[0].Versions)-1]
		title = fmt.Sprintf("%s@%d", name, latest.Version)
		if was, err = PromptText(ctx, nc, latest); err != nil {
			return latest, "", err
		}
	}
	return latest, PromptDiff(title, was, name+", proposed", proposed), nil
}
