// Package strictyaml parses configuration that trust depends on. It supports only a part of YAML
// and refuses every notation that could let a reviewer and the program see different documents.
//
// It accepts one document of block and flow collections and scalars. Unknown and repeated keys,
// anchors, aliases, merge keys, tags, directives, complex keys, additional documents, deep nesting
// and large files are errors. Each error names file, line and column and shows the line. No input
// makes the package panic.
//
// It imports no other package of Lazaret. Begin reading with strictyaml.go; place.go finds the place of an
// error.
package strictyaml
