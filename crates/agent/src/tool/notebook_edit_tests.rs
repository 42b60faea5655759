//! `NotebookEdit`: every byte of its output.

use serde_json::{Value, json};

use super::super::write::test_site::TestSite;
use super::run;

/// As Jupyter writes it, with some details that a rewrite would lose.
const NOTEBOOK: &str = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "id": "intro",
   "metadata": {},
   "source": [
    "# T\u00eftle\n",
    "text"
   ]
  },
  {
   "cell_type": "code",
   "execution_count": 3,
   "id": "sum",
   "metadata": {
    "tags": [ "a" ], "x": 1.0
   },
   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "2\n"
     ]
    }
   ],
   "source": [
    "print(1 + 1)"
   ]
  }
 ],
 "metadata": {
  "language_info": {
   "name": "python"
  }
 },
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// The second cell, beginning with its results.
const RESULTS: &str = r#"   "outputs": [
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "2\n"
     ]
    }
   ],
   "source": [
    "print(1 + 1)"
   ]
"#;

fn bench(notebook: &str) -> TestSite {
    let bench = TestSite::new();
    bench.known("a.ipynb", notebook);
    bench
}

fn input(more: &Value) -> Value {
    let mut input = json!({"notebook_path": "/demo/a.ipynb", "new_source": ""});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

#[test]
fn a_cell_is_replaced_and_its_results_go() {
    let bench = bench(NOTEBOOK);
    let (output, detail) =
        bench.run(run, &input(&json!({"cell_id": "sum", "new_source": "é = 1\nprint(é)\n"})));
    assert_eq!(output, "Updated cell sum.");
    let expected = NOTEBOOK.replace("\"execution_count\": 3", "\"execution_count\": null").replace(
        RESULTS,
        "   \"outputs\": [],\n   \"source\": [\n    \"é = 1\\n\",\n    \"print(é)\\n\"\n   ]\n",
    );
    assert_eq!(bench.text("a.ipynb"), expected);
    assert_eq!(
        detail,
        format!(
            r#"{{"new_source":"é = 1\nprint(é)\n","cell_type":"code","language":"python","edit_mode":"replace","cell_id":"sum","error":"","notebook_path":"/demo/a.ipynb","original_file":{},"updated_file":{}}}"#,
            Value::from(NOTEBOOK),
            Value::from(expected)
        )
    );
    // The new content counts as known.
    bench.run(run, &input(&json!({"cell_id": "cell-0"})));
    assert!(bench.text("a.ipynb").contains("\"metadata\": {},\n   \"source\": []\n  },\n"));
}

#[test]
fn a_cell_becomes_another_kind() {
    let bench = bench(NOTEBOOK);
    bench.run(run, &input(&json!({"cell_id": "sum", "cell_type": "markdown", "new_source": "x"})));
    let expected = NOTEBOOK
        .replace("   \"execution_count\": 3,\n", "")
        .replace("\"code\"", "\"markdown\"")
        .replace(RESULTS, "   \"source\": [\n    \"x\"\n   ]\n");
    assert_eq!(bench.text("a.ipynb"), expected);
    bench.run(run, &input(&json!({"cell_id": "sum", "cell_type": "code", "new_source": "x"})));
    let expected = NOTEBOOK
        .replace("\"execution_count\": 3", "\"execution_count\": null")
        .replace(RESULTS, "   \"outputs\": [],\n   \"source\": [\n    \"x\"\n   ]\n");
    assert_eq!(bench.text("a.ipynb"), expected);
}

#[test]
fn cells_are_inserted() {
    let bench = bench(NOTEBOOK);
    let (output, detail) = bench.run(
        run,
        &input(&json!({"edit_mode": "insert", "cell_id": "intro", "cell_type": "code", "new_source": "1"})),
    );
    let detail: Value = serde_json::from_str(&detail).unwrap();
    let id = detail["cell_id"].as_str().unwrap();
    assert_eq!(output, format!("Inserted cell {id}."));
    assert_eq!(id.len(), 8);
    let new = format!(
        "  {{\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n   \"id\": \"{id}\",\n   \"metadata\": {{}},\n   \"outputs\": [],\n   \"source\": [\n    \"1\"\n   ]\n  }},\n"
    );
    let second = NOTEBOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    let expected = format!("{}{new}{}", &NOTEBOOK[..second], &NOTEBOOK[second..]);
    assert_eq!(bench.text("a.ipynb"), expected);

    // Without a position, it becomes the first.
    bench.run(run, &input(&json!({"edit_mode": "insert", "cell_type": "markdown"})));
    let text = bench.text("a.ipynb");
    assert!(
        text.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"")
    );
    let rest = text.split_once("   \"source\": []\n  },\n").unwrap().1;
    assert_eq!(rest, &expected["{\n \"cells\": [\n".len()..]);
}

#[test]
fn cells_are_deleted() {
    let bench = bench(NOTEBOOK);
    let (output, detail) =
        bench.run(run, &input(&json!({"edit_mode": "delete", "cell_id": "intro"})));
    assert_eq!(output, "Deleted cell intro.");
    assert!(detail.starts_with(
        r#"{"new_source":"","cell_type":"markdown","language":"python","edit_mode":"delete","cell_id":"intro","#
    ));
    let first = NOTEBOOK.find("  {\n   \"cell_type\": \"markdown\"").unwrap();
    let second = NOTEBOOK.find("  {\n   \"cell_type\": \"code\"").unwrap();
    let expected = format!("{}{}", &NOTEBOOK[..first], &NOTEBOOK[second..]);
    assert_eq!(bench.text("a.ipynb"), expected);
    bench.run(run, &input(&json!({"edit_mode": "delete", "cell_id": "sum"})));
    assert!(bench.text("a.ipynb").starts_with("{\n \"cells\": [],\n \"metadata\""));
    bench.run(
        run,
        &input(&json!({"edit_mode": "insert", "cell_type": "markdown", "new_source": "x"})),
    );
    let text = bench.text("a.ipynb");
    assert!(text.starts_with("{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n"), "{text}");
    assert!(text.contains("\n  }\n ],\n \"metadata\""), "{text}");
}

#[test]
fn the_last_of_two_is_deleted() {
    let bench = bench(NOTEBOOK);
    bench.run(run, &input(&json!({"edit_mode": "delete", "cell_id": "sum"})));
    let start = NOTEBOOK.find(",\n  {\n   \"cell_type\": \"code\"").unwrap();
    let end = NOTEBOOK.find("\n ],\n \"metadata\"").unwrap();
    assert_eq!(bench.text("a.ipynb"), format!("{}{}", &NOTEBOOK[..start], &NOTEBOOK[end..]));
}

#[test]
fn an_old_notebook_on_one_line() {
    let old = r#"{"cells": [{"cell_type": "raw", "metadata": {}, "source": "a"}], "nbformat": 4, "nbformat_minor": 2}"#;
    let bench = bench(old);
    bench.run(run, &input(&json!({"cell_id": "cell-0", "new_source": "b\nc"})));
    assert_eq!(bench.text("a.ipynb"), old.replace("\"a\"", "\"b\\nc\""));
    let (output, _) = bench.run(
        run,
        &input(&json!({"edit_mode": "insert", "cell_id": "cell-0", "cell_type": "markdown", "new_source": "d"})),
    );
    assert_eq!(output, "Inserted cell cell-1.");
    assert_eq!(
        bench.text("a.ipynb"),
        r#"{"cells": [{"cell_type": "raw", "metadata": {}, "source": "b\nc"}, {"cell_type": "markdown", "metadata": {}, "source": ["d"]}], "nbformat": 4, "nbformat_minor": 2}"#
    );
}

#[test]
fn what_it_refuses() {
    let bench = bench(NOTEBOOK);
    let refusal = |more| bench.refusal(run, &input(&more));
    let wrong = |text: &str| (true, text.to_owned());
    assert_eq!(
        refusal(json!({"cell_id": "gone"})),
        wrong("There is no cell gone in the notebook.")
    );
    assert_eq!(
        refusal(json!({"cell_id": "cell-2"})),
        wrong("There is no cell cell-2 in the notebook.")
    );
    assert_eq!(refusal(json!({})), wrong("cell_id is missing."));
    assert_eq!(
        refusal(json!({"cell_id": "sum", "edit_mode": "remove"})),
        wrong("There is no edit_mode remove.")
    );
    assert_eq!(
        refusal(json!({"cell_id": "sum", "cell_type": "text"})),
        wrong("There is no cell_type text.")
    );
    assert_eq!(refusal(json!({"edit_mode": "delete"})), wrong("cell_id is missing."));
    assert_eq!(
        refusal(json!({"edit_mode": "insert"})),
        wrong("cell_type is missing: a new cell needs it.")
    );
    assert_eq!(
        refusal(json!({"notebook_path": "/demo/a.py"})),
        wrong("This is not a notebook (.ipynb): use Edit.")
    );
    assert_eq!(refusal(json!({"notebook_path": "/demo/b.ipynb"})), wrong("File does not exist."));
    bench.file("c.ipynb", "{}");
    assert_eq!(
        refusal(json!({"notebook_path": "/demo/c.ipynb"})),
        wrong("File has not been read yet. Read it first before writing to it.")
    );
    bench.known("c.ipynb", "{}");
    let (is_tagged, message) = refusal(json!({"notebook_path": "/demo/c.ipynb"}));
    assert!(!is_tagged && message.starts_with("/demo/c.ipynb is not a notebook: "), "{message}");
    assert_eq!(bench.text("a.ipynb"), NOTEBOOK);
}
