package ingest

import (
	"bytes"
	"fmt"

	"lazaret/internal/stage"
	"lazaret/streams"
)

// maxVersions is the maximum number of stored versions of a prompt. The oldest is dropped.
const maxVersions = 200

// notePrompt adds the text that a person approved as the next version of its prompt. A verdict on a repeated proposal
// adds none.
func notePrompt(st *stage.State, project string, v *streams.VerdictEntry) error {
	p := v.Resolved.Prompt
	key := stage.Key(keyPrompt, project, p.Name)
	var known []streams.PromptVersion
	if _, err := st.Load(key, &known); err != nil {
		return err
	}
	next := streams.PromptVersion{Version: 1, Digest: p.Digest, By: v.Resolved.By, Hold: v.Resolved.Hold,
		Entry: v.Proposal, Time: v.Resolved.Time}
	for _, x := range known {
		if x.Hold == next.Hold {
			return nil
		}
		next.Version = x.Version + 1
	}
	known = append(known, next)
	return st.Put(key, known[max(0, len(known)-maxVersions):])
}

// promptDiffers says how the prompt that a session names differs from the registered version. It returns "" if it does
// not differ, or if the name is not registered and the session gives no digest. said is the session's name for the
// prompt, and digest that of its text.
func promptDiffers(st *stage.State, project, said, digest string) (string, error) {
	if said == "" && digest == "" {
		return "", nil
	}
	name, version, bad := streams.ParsePrompt(said)
	var known []streams.PromptVersion
	if bad == nil {
		if _, err := st.Load(stage.Key(keyPrompt, project, name), &known); err != nil {
			return "", err
		}
	}
	if len(known) == 0 {
		if digest == "" {
			return "", nil
		}
		return fmt.Sprintf("no prompt %q is registered", streams.Clip(said, 80)), nil
	}
	latest := known[len(known)-1]
	if version == 0 {
		version = latest.Version
	}
	for _, x := range known {
		switch {
		case x.Version != version:
		case digest == "":
			return fmt.Sprintf("it names version %d of prompt %s and gives no digest of its text", version, name), nil
		case digest != x.Digest:
			return fmt.Sprintf("its text has digest %s, version %d of prompt %s has %s", digest, version, name, x.Digest), nil
		default:
			return "", nil
		}
	}
	return fmt.Sprintf("prompt %s has no version %d, the latest is %d", name, version, latest.Version), nil
}

// AskPrompts is the query for the registered prompts of a project.
const AskPrompts = "prompts"

// PromptsRequest selects prompts. Without a name, the answer has all prompts of the project, each with its latest
// version only.
type PromptsRequest struct {
	Project string `json:"project"`
	Name    string `json:"name,omitzero"`
}

// Prompt is a registered prompt.
type Prompt struct {
	Name     string                  `json:"name"`
	Versions []streams.PromptVersion `json:"versions"` // the latest last
}

// maxPrompts is the maximum number of prompts in an answer.
const maxPrompts = 1000

func listPrompts(st *stage.State, req []byte) (any, error) {
	var q PromptsRequest
	if err := streams.Unmarshal(req, &q); err != nil {
		return nil, err
	}
	if err := streams.CheckID("project", q.Project); err != nil {
		return nil, err
	}
	out := []Prompt{}
	if q.Name != "" {
		p := Prompt{Name: q.Name}
		if ok, err := st.Load(stage.Key(keyPrompt, q.Project, q.Name), &p.Versions); err != nil || !ok {
			return out, err
		}
		return append(out, p), nil
	}
	prefix := stage.Key(keyPrompt, q.Project, "")
	err := st.Scan(prefix, func(k, v []byte) (bool, error) {
		p := Prompt{Name: string(bytes.TrimPrefix(k, prefix))}
		if err := streams.Unmarshal(v, &p.Versions); err != nil {
			return false, err
		}
		p.Versions = p.Versions[max(0, len(p.Versions)-1):]
		out = append(out, p)
		return len(out) < maxPrompts, nil
	})
	return out, err
}
