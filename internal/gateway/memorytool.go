package gateway

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"lazaret/client"
	"lazaret/internal/memgate"
	"lazaret/internal/memorytool"
	"lazaret/pkg/beliefs"
	"lazaret/streams"
)

// MemoryToolRequest is a call of the memory tool: the model's input, with the session and the user. DataSubject is
// the person whom the text is about; if it is empty, that is the user.
type MemoryToolRequest struct {
	Session     string `json:"session,omitzero"`
	User        string `json:"user,omitzero"`
	DataSubject string `json:"data_subject,omitzero"`
	memorytool.Input
}

// MemoryToolResult is the content of the tool_result block that answers the call.
type MemoryToolResult struct{ memorytool.Result }

// judge asks for verdicts about memory writes and found memories over the connection of a call.
type judge struct{ *call }

func (j judge) Remember(_ context.Context, origin beliefs.Origin, m *streams.Memory) (*client.Reply, error) {
	return j.propose(&proposed{svc: streams.SvcRemember, origin: origin, event: m, size: len(m.Content)})
}

func (j judge) Gate(_ context.Context, r *streams.Recall) (rep *client.Reply, err error) {
	err = j.asks(streams.SvcGate, "", func(ctx context.Context) (err error) {
		rep, err = j.s.client.Gate(ctx, r)
		return err
	})
	return rep, err
}

// tidy renames the folders that an earlier version named after the users to their current names. If a
// folder with the current name exists, tidy leaves the old one alone. It also removes old ids of held
// changes.
func tidy(memory string) error {
	held, err := fs.Glob(os.DirFS(memory), "*/*/"+memorytool.Held)
	for _, name := range held {
		err = errors.Join(err, memgate.Held(filepath.Join(memory, filepath.FromSlash(name))).Sweep())
	}
	old, gerr := fs.Glob(os.DirFS(memory), "*/*/users/*[A-Z]*")
	err = errors.Join(err, gerr)
	for _, name := range old {
		next := filepath.Join(memory, filepath.FromSlash(path.Dir(name)), memorytool.UserFolder(path.Base(name)))
		if _, err := os.Lstat(next); err == nil {
			continue // the folder with the old name stays, unused
		}
		if rerr := os.Rename(filepath.Join(memory, filepath.FromSlash(name)), next); rerr != nil {
			err = errors.Join(err, fmt.Errorf("renaming a folder of the memory tool: %w", rerr))
		}
	}
	return err
}

func memoryTool(c *call) (any, error) {
	in := new(MemoryToolRequest)
	if err := c.decode(in); err != nil {
		return nil, err
	}
	for name, id := range map[string]string{"session": in.Session, "user": in.User, "data_subject": in.DataSubject} {
		if id != "" && !streams.ValidID(id) {
			return nil, problem(streams.CodeInvalid, "%s is %q, use 1 to 64 of A-Z a-z 0-9 _ -", name, streams.Clip(id, 80))
		}
	}
	own := filepath.Join(c.g.cfg.Memory, c.s.project, c.s.agent)
	folder := memorytool.Folder(in.DataSubject, in.User)
	t := &memorytool.Tool{Judge: judge{c}, Dir: filepath.Join(own, folder),
		Held: memgate.Held(filepath.Join(own, memorytool.Held, folder)),
		Head: streams.Head{Session: in.Session, User: in.User, DataSubject: in.DataSubject}, Lock: &c.g.files}
	res, err := t.Call(c.ctx, &in.Input)
	if err != nil {
		return nil, err
	}
	return &MemoryToolResult{*res}, nil
}
