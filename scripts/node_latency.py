"""Measures live delivery between two nodes: publishes a corpus's notes at one, subscribes at both, and
prints how long after its time each came, in milliseconds.

usage: node_latency.py 127.0.0.1:7777 127.0.0.1:7778 CORPUS FIRST COUNT EVENTS_PER_SECOND
"""
import base64, json, os, socket, struct, sys, threading, time
class WS:
    def __init__(s,addr):
        h,p=addr.split(':'); s.k=socket.create_connection((h,int(p))); s.k.setsockopt(socket.IPPROTO_TCP,socket.TCP_NODELAY,1)
        s.k.sendall(('GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n'%(addr,base64.b64encode(os.urandom(16)).decode())).encode())
        s.b=b''
        while b'\r\n\r\n' not in s.b: s.b+=s.k.recv(4096)
        s.b=s.b.split(b'\r\n\r\n',1)[1]
    def send(s,t):
        d=t.encode(); n=len(d); hd=b'\x81'+(bytes([0x80|n]) if n<126 else b'\xfe'+struct.pack('>H',n) if n<65536 else b'\xff'+struct.pack('>Q',n))
        s.k.sendall(hd+b'\0\0\0\0'+d)
    def need(s,n):
        while len(s.b)<n:
            r=s.k.recv(1<<16)
            if not r: raise EOFError
            s.b+=r
    def recv(s):
        while True:
            s.need(2); op=s.b[0]&15; n=s.b[1]&127; o=2
            if n==126: s.need(4); n=struct.unpack('>H',s.b[2:4])[0]; o=4
            elif n==127: s.need(10); n=struct.unpack('>Q',s.b[2:10])[0]; o=10
            s.need(o+n); d=s.b[o:o+n]; s.b=s.b[o+n:]
            if op==8: return ('close',struct.unpack('>H',d[:2])[0],d[2:].decode())
            if op==1: return json.loads(d)

a,b,f,start,n,rate=sys.argv[1:4]+[int(x) for x in sys.argv[4:7]]
ev=[l.strip() for i,l in enumerate(open(f)) if '"kind":1,' in l][start:start+n]
ids=[json.loads(l)['id'] for l in ev]
def sub(addr,out):
    w=WS(addr); w.send('["REQ","x",{"kinds":[1],"limit":0}]')
    while w.recv()[0]!='EOSE': pass
    def go():
        left=set(ids)
        while left:
            m=w.recv(); t=time.perf_counter()
            if m[0]=='EVENT' and m[2]['id'] in left: out[m[2]['id']]=t; left.discard(m[2]['id'])
    th=threading.Thread(target=go); th.start(); return th
oa,ob={},{}; ts=[sub(a,oa),sub(b,ob)]
p=WS(a); sent={}; t0=time.perf_counter()
oks=[0,0]
def drain():
    while sum(oks)<len(ev):
        m=p.recv()
        if m[0]=='OK': oks[0 if m[2] else 1]+=1; 
        if m[0]=='OK' and not m[2]: print(m)
th=threading.Thread(target=drain); th.start()
for i,l in enumerate(ev):
    due=t0+i/rate; d=due-time.perf_counter()
    if d>0: time.sleep(d)
    sent[ids[i]]=due; p.send('["EVENT",'+l+']')
th.join()
for t in ts: t.join(20)
print('ok',oks)
for name,o in (('same node',oa),('other node',ob)):
    x=sorted((o[i]-sent[i])*1000 for i in ids if i in o); k=len(x)
    print(name,k,'p50 %.1f p90 %.1f p99 %.1f max %.1f ms'%(x[k//2],x[k*9//10],x[k*99//100],x[-1]))
