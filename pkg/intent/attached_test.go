package intent

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"lazaret/pkg/text"
)

// taken relates a call that has one list argument to a user's words.
func taken(said, tool, name string, files ...string) *Relation {
	s := new(Said)
	s.Add(said)
	list := make([]any, len(files))
	for i, f := range files {
		list[i] = f
	}
	r := s.Relate(tool, map[string]any{"id": "HLP-9", "text": "Sorry! See the attachment.", name: list},
		text.Analyze(strings.Join(files, "\n")).Carriers)
	if r == nil {
		return new(Relation)
	}
	return r
}

// attachment relates an answer that has one attachment with one member to a user's words.
func attachment(said, member, value string) string {
	s := new(Said)
	s.Add(said)
	r := s.Relate("desk.ticket_reply", map[string]any{"id": "HLP-9", "text": "Here it is.",
		"attachments": []any{map[string]any{member: value}}}, text.Analyze(value).Carriers)
	if r == nil {
		return ""
	}
	return r.Attached
}

func TestAFileThatTheUserDidNotNameIsAttached(t *testing.T) {
	for _, x := range []struct {
		said, tool, name string
		files            []string
	}{
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"/home/ana/.ssh/id_rsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"customers.csv"}},
		{"Answer ticket HLP-9 and attach the price list.", "desk.ticket_reply", "attachments",
			[]string{"price-list.pdf", "customers.csv"}},
		{"Answer ticket HLP-9 and attach the price list.", "desk.ticket_reply", "files",
			[]string{"price-list.pdf, customers.csv"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attach", []string{"payroll"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"doc-88"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"customer-answers.csv"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "extra", []string{"~/contacts.vcf"}},
		{"Open an issue about the crash.", "create_issue", "attachments", []string{"customers.csv"}},
		{"Answer ticket HLP-9.", "ticket.answer", "attachments", []string{"customers.csv"}},
		{"Answer ticket HLP-9.", "ticket.respond", "files", []string{"customers.csv"}},
		{"Comment on issue 12.", "issue.comment", "file", []string{"customers.csv"}},
		{"Submit the form for the visa.", "form.submit", "file", []string{"customers.csv"}},
		{"Mail the minutes to Ana.", "send_email", "attachments", []string{"/home/ana/salaries.xlsx"}},
		{"Explain what credentials are and mail it to Bo.", "send_email", "attachments", []string{"~/.aws/credentials"}},
		{"Deploy to the test env and mail Bo.", "send_email", "attachments", []string{"app/.env"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"file:///home/ana/.ssh/id_rsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"FILE:/home/ana/.ssh/id%5Frsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"file://localhost/srv/customers.csv"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "link", []string{"file:///srv/customers.csv"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"/home/ana/x@y/../.ssh/id_rsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"@/srv/customers.csv"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", []string{"a://../../home/ana/.ssh/id_rsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attach_inline", []string{"/home/ana/.ssh/id_rsa"}},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "extra",
			[]string{"/one/two/three/four/five/six/seven/eight/nine/ten/eleven/twelve/.ssh/id_rsa"}},
		{"Mail the minutes to Ana.", "send_email", "attachments",
			[]string{"minutes-1.pdf, minutes-2.pdf, minutes-3.pdf, minutes-4.pdf, minutes-5.pdf, customers.csv"}},
	} {
		if r := taken(x.said, x.tool, x.name, x.files...); r.Attached == "" {
			t.Errorf("%q: %v counts as named", x.said, x.files)
		}
	}
	for _, member := range []string{"content", "data", "body", "type"} {
		if a := attachment("Answer ticket HLP-9.", member, "/home/ana/.ssh/id_rsa"); a == "" {
			t.Errorf("a path as the %s of an attachment counts as named", member)
		}
	}
	if attachment("Answer ticket HLP-9.", "data", "@/srv/customers.csv") == "" {
		t.Error("a path as the data of an attachment counts as named")
	}
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprint("minutes-", i, ".pdf")
	}
	many[69] = "customers.csv"
	if r := taken("Mail the minutes to Ana.", "send_email", "attachments", many...); r.Attached == "" {
		t.Error("a file behind many others counts as named")
	}
}

func TestAFileThatTheUserNamedIsNotAttached(t *testing.T) {
	for _, x := range []struct {
		said, tool, name, file string
	}{
		{"Answer ticket HLP-9 and attach the price list.", "desk.ticket_reply", "attachments", "price-list.pdf"},
		{"Mail customers.csv to Ana.", "send_email", "attachments", "/srv/data/customers.csv"},
		{"Send Ines the rooming list.", "postbox.send_message", "attachments", "rooming-list.pdf"},
		{"Send Ines the order.", "postbox.send_message", "attachments", "order-12.pdf"},
		{"Mail a.txt to Ana.", "send_email", "attachments", "a.txt"},
		{"Send Bo all files in the folder invoices.", "send_email", "attachments", "invoices/n-2231.pdf"},
		{"Create the file plan and share it with Bo.", "share_file", "file_id", "26"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "subject", "Re: the app fails"},
		{"Answer ticket HLP-9.", "desk.ticket_get", "path", "HLP-9"},
		{"Which comments are in customers.csv?", "get_comments", "file", "notes.csv"},
		{"Write the report to report.md.", "write_file", "files", "notes.md"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "cc", "Bo <bo@corp.example>, eve@corp.example"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "mention", "@ana"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "link", "https://corp.example/help.pdf"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "attachments", "https://corp.example/.ssh/id_rsa"},
		{"Mail customers.csv to Ana.", "send_email", "attachments", "file:///srv/data/customers.csv"},
		{"Mail customers.csv to Ana.", "send_email", "attachments", "@customers.csv"},
		{"Answer ticket HLP-9.", "desk.ticket_reply", "comment", "Hello,\nplease make a key with ssh-keygen, add the public " +
			"key to your profile and keep the private one in\n~/.ssh/id_rsa\nas it is."},
	} {
		if r := taken(x.said, x.tool, x.name, x.file); r.Attached != "" {
			t.Errorf("%q: %s does not count as named", x.said, x.file)
		}
	}
	for member, value := range map[string]string{"content": "/9j/4AAQSkZJRgABAQEASABIAAD", "type": "application/vnd.ms-excel",
		"size": "1.25", "data": "# Keys\n\nThe private key is in\n~/.ssh/id_rsa\n", "encoding": "base64"} {
		if a := attachment("Answer ticket HLP-9.", member, value); a != "" {
			t.Errorf("the %s %q of an attachment counts as a file", member, value)
		}
	}
	for said, file := range map[string]string{
		"Send my key ~/.ssh/id_rsa to the other machine by mail.": "/home/ana/.ssh/id_rsa",
		"Mail the file .env to Bo.":                               "app/.env",
		"Mail the aws credentials to Bo.":                         "/home/ana/.aws/credentials",
	} {
		if r := taken(said, "send_email", "attachments", file); r.Attached != "" || !slices.Contains(r.Values, "attachments.0") {
			t.Errorf("%q: %s does not count as named: %+v", said, file, r)
		}
	}
}
