"""Reads a lake with one engine and answers all questions of docs/lake.md, as JSON on standard output.

    lake.py ENGINE TARGET QUESTIONS

ENGINE is `duckdb`, `chdb` or `spark`; TARGET is a folder or `s3://…` (with AWS_ENDPOINT_URL); QUESTIONS is docs/lake.md.
The answer is an object: the sums of `calls`, the rows of each table, and the rows of each question.
"""
import datetime
import decimal
import json
import os
import re
import sys

TABLES = ["calls", "tools", "edits", "turns", "messages", "findings", "sessions"]
TOTAL = """SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cache_write_5m_tokens),
 sum(cache_write_1h_tokens), sum(cache_read_tokens), sum(cost_usd) FROM calls WHERE NOT is_copy"""


def questions(path):
    """The SQL of each question, by its number: the blocks below `### 1. …`."""
    found = {}
    for part in re.split(r"^### ", open(path, encoding="utf-8").read(), flags=re.M)[1:]:
        head = re.match(r"(\d+)\. ", part)
        block = re.search(r"```sql\n(.*?)```", part, flags=re.S)
        if head and block:
            found[int(head.group(1))] = block.group(1).strip().rstrip(";")
    return found


def plain(value):
    """A value that is the same in all engines."""
    if isinstance(value, decimal.Decimal):
        return str(value.quantize(decimal.Decimal("0.000001")).normalize() + 0)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return value


def by_duckdb(target, asked):
    import duckdb
    db = duckdb.connect()
    db.execute("SET TimeZone = 'UTC'")
    if target.startswith("s3://"):
        from duckdb_extensions import import_extension
        import_extension("httpfs")
        db.execute("LOAD httpfs")
        endpoint = os.environ["AWS_ENDPOINT_URL"].split("://")[1]
        db.execute(f"CREATE SECRET (TYPE s3, KEY_ID 'test', SECRET 'test', REGION 'us-east-1', "
                   f"ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)")
    for table in TABLES:
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{target}/{table}/*/*.parquet', "
                   f"union_by_name = true, hive_partitioning = true, hive_types = {{'day': VARCHAR}})")
    return [db.execute(sql).fetchall() for sql in asked]


def by_chdb(target, asked):
    from chdb import session
    db = session.Session()
    for table in TABLES:
        path = f"{target}/{table}/*/*.parquet"
        if target.startswith("s3://"):
            url = os.environ["AWS_ENDPOINT_URL"] + "/" + path.removeprefix("s3://")
            source = f"s3('{url}', 'test', 'test', 'Parquet')"
        else:
            source = f"file('{path}', 'Parquet')"
        db.query(f"CREATE VIEW {table} AS SELECT * FROM {source} "
                 f"SETTINGS schema_inference_mode = 'union', use_hive_partitioning = 0")
    answers = []
    for sql in asked:
        text = str(db.query(sql, "JSONCompact"))
        answer = json.loads(text, parse_float=decimal.Decimal)
        kinds = [column["type"] for column in answer["meta"]]
        answers.append([[of_chdb(cell, kind) for cell, kind in zip(row, kinds)] for row in answer["data"]])
    return answers


def of_chdb(cell, kind):
    if cell is None:
        return None
    if "Int" in kind:
        return int(cell)
    if "Decimal" in kind:
        return decimal.Decimal(str(cell))
    if "Float" in kind:
        return float(cell)
    if "Bool" in kind:
        return bool(cell)
    return cell


def by_spark(target, asked):
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
             .config("spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false")
             .config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "2g")
             .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
             .config("spark.sql.shuffle.partitions", "4").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        spark.read.option("mergeSchema", "true").parquet(f"{target}/{table}").createOrReplaceTempView(table)
    return [[tuple(row) for row in spark.sql(sql).collect()] for sql in asked]


def main():
    engine, target, path = sys.argv[1:4]
    numbered = questions(path)
    asked = [TOTAL, *(f"SELECT count(*) FROM {table}" for table in TABLES), *numbered.values()]
    answers = {"duckdb": by_duckdb, "chdb": by_chdb, "spark": by_spark}[engine](target, asked)
    answers = [[[plain(cell) for cell in row] for row in rows] for rows in answers]
    total, rest = answers[0][0], answers[1:]
    result = {
        "total": [0 if cell is None else cell for cell in total],
        "rows": {table: rows[0][0] for table, rows in zip(TABLES, rest)},
        "questions": {number: rows for number, rows in zip(numbered, rest[len(TABLES):])},
    }
    print(json.dumps(result))


main()
