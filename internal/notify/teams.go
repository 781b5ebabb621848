package notify

import (
	"context"
	"fmt"

	"lazaret/streams"
)

// Teams is a webhook of a Teams workflow. It sends an adaptive card. Values are in text runs, where
// Teams interprets no Markdown, and the card declares no mentions.
type Teams struct {
	URL     string `yaml:"url"`
	URLFile string `yaml:"url_file"`
}

func (t *Teams) prepare() error { return prepareURL(&t.URL, t.URLFile) }

func (t *Teams) secrets() []string { return []string{t.URL} }

func (t *Teams) send(ctx context.Context, m *Message) error {
	line := func(s string, bold bool) object {
		run := object{"type": "TextRun", "text": tame(s)}
		if bold {
			run["weight"] = "Bolder"
		}
		return object{"type": "RichTextBlock", "inlines": []object{run}}
	}
	var body []object
	for i, n := range m.Notices {
		if i == shown {
			body = append(body, line(fmt.Sprintf("and %d more", len(m.Notices)-shown), false))
			break
		}
		body = append(body, line(n.headline(), true))
		if n.Text != "" {
			body = append(body, line(n.Text, false))
		}
		if n.Link != "" {
			body = append(body, object{"type": "ActionSet", "actions": []object{{"type": "Action.OpenUrl",
				"title": "Open in the console", "url": n.Link}}})
		}
	}
	b, err := streams.Marshal(object{"type": "message",
		"attachments": []object{{"contentType": "application/vnd.microsoft.card.adaptive",
			"content": object{"type": "AdaptiveCard", "version": "1.4",
				"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "body": body}}}})
	if err != nil {
		return refusal{err}
	}
	return post(ctx, t.URL, nil, b)
}
