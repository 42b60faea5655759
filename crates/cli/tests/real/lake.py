"""Reads a lake with one engine and answers all questions of docs/lake.md, as JSON on standard output.

    lake.py ENGINE TARGET PAGE [SESSION]
    lake.py formats TARGET SCRATCH
    lake.py compact TARGET SCRATCH PAGE

ENGINE is `duckdb`, `chdb` or `spark`; TARGET is a folder or `s3://…` (with AWS_ENDPOINT_URL); PAGE is docs/lake.md.
The answer is an object: the sums of `calls`, the rows of each table, those of two by their versions, the rows of
each question, and for `duckdb` the names of their columns; with SESSION also its rows, and the sums of the view
`calls_once` of the page. `compact` does what the page says of one day, and compares it with the lake. `formats` makes a Delta table, an Iceberg
table and a table of ClickHouse from `calls`, loads the last one twice, and says how many rows each has.
"""
import datetime
import decimal
import glob
import json
import os
import re
import shutil
import sys
import time

TABLES = ["calls", "tools", "edits", "turns", "messages", "findings", "sessions"]
TOTAL = """SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cache_write_5m_tokens),
 sum(cache_write_1h_tokens), sum(cache_read_tokens), sum(cost_usd) FROM calls WHERE NOT is_copy"""
ONCE = TOTAL.replace("FROM calls WHERE NOT is_copy", "FROM calls_once")
# A column that a later version brought is null in the rows of earlier ones.
VERSIONS = [f"SELECT schema_version, count(*), count({column}) FROM {table} GROUP BY schema_version ORDER BY schema_version"
            for table, column in [("tools", "server"), ("calls", "cost_without_cache_usd")]]


def questions(path):
    """The SQL of each question, by its number: the blocks below `### 1. …`."""
    found = {}
    for part in re.split(r"^### ", open(path, encoding="utf-8").read(), flags=re.M)[1:]:
        head = re.match(r"(\d+)\. ", part)
        block = re.search(r"```sql\n(.*?)```", part, flags=re.S)
        if head and block:
            found[int(head.group(1))] = block.group(1).strip().rstrip(";")
    return found


def block(path, begin):
    """The SQL of the page that begins so."""
    text = open(path, encoding="utf-8").read()
    return re.search(r"```sql\n(" + re.escape(begin) + r".*?);?\n```", text, flags=re.S).group(1)


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


def opened_by_duckdb(target):
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
        db.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{target}/{table}/day=*/*.parquet', "
                   f"union_by_name = true, hive_partitioning = true, hive_types = {{'day': VARCHAR}})")
    return db


def by_duckdb(target, once, asked):
    db = opened_by_duckdb(target)
    db.execute(once)
    for sql in asked:
        answer = db.execute(sql)
        yield [column[0] for column in answer.description], answer.fetchall()


def by_chdb(target, once, asked):
    from chdb import session
    db = session.Session()
    for table in TABLES:
        path = f"{target}/{table}/day=*/*.parquet"
        if target.startswith("s3://"):
            url = os.environ["AWS_ENDPOINT_URL"] + "/" + path.removeprefix("s3://")
            source = f"s3('{url}', 'test', 'test', 'Parquet')"
        else:
            source = f"file('{path}', 'Parquet')"
        db.query(f"CREATE VIEW {table} AS SELECT * FROM {source} "
                 f"SETTINGS schema_inference_mode = 'union', use_hive_partitioning = 0")
    db.query(once)
    for sql in asked:
        text = str(db.query(sql, "JSONCompact"))
        answer = json.loads(text, parse_float=decimal.Decimal)
        kinds = [column["type"] for column in answer["meta"]]
        rows = [[of_chdb(cell, kind) for cell, kind in zip(row, kinds)] for row in answer["data"]]
        yield [column["name"] for column in answer["meta"]], rows


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


def by_spark(target, once, asked):
    from pyspark.sql import SparkSession
    spark = (SparkSession.builder.master("local[2]").config("spark.driver.host", "127.0.0.1")
             .config("spark.driver.bindAddress", "127.0.0.1").config("spark.ui.enabled", "false")
             .config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "2g")
             .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
             .config("spark.sql.shuffle.partitions", "4").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    for table in TABLES:
        spark.read.option("mergeSchema", "true").parquet(f"{target}/{table}").createOrReplaceTempView(table)
    # What it reads are temporary views, too.
    spark.sql(once.replace("CREATE VIEW", "CREATE TEMPORARY VIEW"))
    for sql in asked:
        answer = spark.sql(sql)
        yield answer.columns, [tuple(row) for row in answer.collect()]


ENGINES = {"duckdb": by_duckdb, "chdb": by_chdb, "spark": by_spark}


def formats(target, scratch):
    import pyarrow.parquet
    from chdb import session
    from deltalake import DeltaTable, Field, Schema, convert_to_deltalake
    from pyiceberg.catalog.sql import SqlCatalog
    files = sorted(glob.glob(f"{target}/calls/day=*/*.parquet"))
    shutil.copytree(f"{target}/calls", f"{scratch}/delta")
    convert_to_deltalake(f"{scratch}/delta", partition_by=Schema([Field("day", "string")]), partition_strategy="hive")
    delta = DeltaTable(f"{scratch}/delta").to_pyarrow_table()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{scratch}/catalog.db", warehouse=f"file://{scratch}/iceberg")
    catalog.create_namespace("lake")
    table = catalog.create_table("lake.calls", schema=pyarrow.parquet.read_schema(files[0]))
    table.add_files(["file://" + file for file in files])
    iceberg = table.scan().to_arrow()
    db = session.Session(f"{scratch}/clickhouse")
    source = f"file('{target}/calls/day=*/*.parquet', 'Parquet') SETTINGS use_hive_partitioning = 0"
    db.query("CREATE DATABASE lake")
    db.query("CREATE TABLE lake.calls ENGINE = ReplacingMergeTree(loaded) ORDER BY (machine, session_id, message_id) "
             f"AS SELECT *, now64(3) AS loaded FROM {source.replace(' SETTINGS', ' LIMIT 0 SETTINGS')}")
    for _ in range(2):
        db.query(f"INSERT INTO lake.calls SELECT *, now64(3) FROM {source}")
    raw = int(str(db.query("SELECT count() FROM lake.calls", "TSV")))
    once = int(str(db.query("SELECT count() FROM lake.calls FINAL", "TSV")))
    sums = lambda arrow: [arrow.num_rows, sum(arrow["output_tokens"].to_pylist())]
    output = int(str(db.query("SELECT sum(output_tokens) FROM lake.calls FINAL", "TSV")))
    print(json.dumps({"delta": sums(delta), "iceberg": sums(iceberg), "clickhouse": [once, output], "loaded": raw}))


def compact(target, scratch, page):
    day = opened_by_duckdb(target).execute("SELECT min(day) FROM calls").fetchone()[0]
    os.makedirs(f"{scratch}/calls")
    for table in TABLES[1:]:
        shutil.copytree(f"{target}/{table}", f"{scratch}/{table}")
    sql = block(page, "COPY (SELECT * FROM calls")
    db = opened_by_duckdb(target)
    db.execute(sql.replace("COMPACT/", f"{scratch}/").replace("2026-11-18", day))
    rows = lambda folder: opened_by_duckdb(folder).execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM calls WHERE day = '{day}'").fetchall()
    wanted, found = [sorted(map(repr, rows(folder))) for folder in (target, scratch)]
    print(json.dumps({"rows": len(found), "files": len(glob.glob(f"{scratch}/calls/day=*/*.parquet")), "same": found == wanted}))


def spent():
    """Seconds by the clock, and of CPU time of this process and all below it: Spark is one of them."""
    if "TIMES" not in os.environ:
        return [0, 0]
    parents, ticks = {}, {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            fields = open(path, encoding="utf-8", errors="replace").read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        number = int(path.split("/")[2])
        parents[number], ticks[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    ours = [os.getpid()]
    for process in ours:
        ours += [child for child, parent in parents.items() if parent == process]
    return [time.perf_counter(), sum(ticks[process] for process in ours) / os.sysconf("SC_CLK_TCK")]


def main():
    if sys.argv[1] == "formats":
        return formats(*sys.argv[2:4])
    if sys.argv[1] == "compact":
        return compact(*sys.argv[2:5])
    engine, target, path = sys.argv[1:4]
    session = sys.argv[4] if len(sys.argv) > 4 else ""
    numbered = questions(path)
    once = block(path, "CREATE VIEW calls_once AS")
    asked = [TOTAL, ONCE if session else TOTAL, *VERSIONS]
    asked += [f"SELECT count(*) FROM {table}" for table in TABLES]
    asked += [f"SELECT count(*) FROM {table} WHERE session_id = '{session}'" for table in TABLES]
    asked += numbered.values()
    answers, begin, seconds = [], spent(), []
    for columns, rows in ENGINES[engine](target, once, asked):
        answers.append((list(columns), [[plain(cell) for cell in row] for row in rows]))
        seconds.append([after - before for after, before in zip(spent(), begin)])
        begin = spent()
    total, total_once, of_tools, of_calls, *rest = [rows for _, rows in answers]
    counts = {table: rows[0][0] for table, rows in zip(TABLES, rest)}
    of_session = {table: rows[0][0] for table, rows in zip(TABLES, rest[len(TABLES):])}
    shown = answers[-len(numbered):]
    result = {
        "total": [0 if cell is None else cell for cell in total[0]],
        "once": [0 if cell is None else cell for cell in total_once[0]],
        "versions": [of_tools, of_calls],
        "rows": counts,
        "session": of_session,
        "questions": {number: rows for number, (_, rows) in zip(numbered, shown)},
    }
    if engine == "duckdb":
        result["columns"] = {number: columns for number, (columns, _) in zip(numbered, shown)}
    if "TIMES" in os.environ:
        result["seconds"] = dict(zip(numbered, seconds[-len(numbered):]))
    print(json.dumps(result))


main()
