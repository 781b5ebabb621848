package memproxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/textproto"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"lazaret/streams"
)

// textFiles are the extensions of files that a store reads as plain text. Other files are refused, because the proxy
// does not know which text a store extracts from them.
var textFiles = []string{"", ".txt", ".text", ".md", ".csv", ".json", ".yaml", ".yml", ".log"}

// formFile is a file in a form. In this format, it is a part of the JSON that is judged.
type formFile struct {
	Name    string `json:"filename"`
	Content string `json:"content"`
}

// readForm reads a form. files is the field that has files, which must be text files. x.body becomes the form as JSON,
// which is judged. x.form becomes a form that contains only the values in this JSON.
func (x *exchange) readForm(files, boundary string) error {
	if boundary == "" {
		return errors.New("the form has no boundary")
	}
	in := multipart.NewReader(bytes.NewReader(x.body), boundary)
	var sent bytes.Buffer
	out := multipart.NewWriter(&sent)
	all := map[string]any{}
	var texts []formFile
	fields := map[string][]string{}
	for {
		part, err := in.NextRawPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return errors.New("the form is malformed")
		}
		name, file := part.FormName(), part.FileName()
		value, err := io.ReadAll(part)
		if err != nil {
			return errors.New("the form is malformed")
		}
		if err := checkPart(part, name, value); err != nil {
			return err
		}
		if name != files {
			if file != "" {
				return fmt.Errorf("the field %q is a file, but only %q may contain files", name, files)
			}
			fields[name] = append(fields[name], string(value))
			if err := out.WriteField(name, string(value)); err != nil {
				return err
			}
			continue
		}
		if !plain.MatchString(file) || !slices.Contains(textFiles, strings.ToLower(path.Ext(file))) {
			return fmt.Errorf("the file name is %q: use letters, digits and _ . : + -, and one of the endings %s",
				streams.Clip(file, 80), strings.Join(textFiles[1:], " "))
		}
		texts = append(texts, formFile{file, string(value)})
		w, err := out.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {multipart.FileContentDisposition(name, file)},
			"Content-Type":        {"text/plain; charset=utf-8"}})
		if err == nil {
			_, err = w.Write(value)
		}
		if err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	for name, values := range fields {
		all[name] = values
	}
	all[files] = texts
	body, err := json.Marshal(all, json.Deterministic(true))
	if err != nil {
		return err
	}
	x.body, x.form, x.kind = body, sent.Bytes(), out.FormDataContentType()
	return nil
}

// checkPart returns an error if a store could decode a part of a form to a text other than value, which is judged.
func checkPart(part *multipart.Part, name string, value []byte) error {
	switch encoding := part.Header.Get("Content-Transfer-Encoding"); {
	case !plain.MatchString(name) || name == "":
		return fmt.Errorf("a field name of the form is %q: use letters, digits and _", streams.Clip(name, 80))
	case encoding != "" && encoding != "binary" && encoding != "8bit" && encoding != "7bit":
		return fmt.Errorf("the field %q has the transfer encoding %q: send it without one", name, streams.Clip(encoding, 80))
	case !utf8.Valid(value) || bytes.IndexByte(value, 0) >= 0:
		return fmt.Errorf("the field %q is not UTF-8 text: only text can be judged", name)
	case name == "content_type" && len(value) > 0:
		return errors.New("content_type must be empty: archives cannot be judged, only text")
	}
	return nil
}
